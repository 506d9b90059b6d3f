"""Make the notebooks of the lessons, in both languages, from their one source.

    python examples/lessons/build.py            writes en/*.ipynb and es/*.ipynb
    python examples/lessons/build.py --check    only says whether they are up to date

A source is a Python file in percent format, which runs as it is (`python 3_attention.py`, `python 3_attention.py es`):

    # %% [markdown] en         prose in English
    # %% [markdown] es         the same prose in Spanish
    # %%                       code, for both; lines `# en: ...` and `# es: ...` are comments in one language

Needs nbformat.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
LANGUAGES = ("en", "es")
SWITCH = re.compile(r"^LANGUAGE = .*$", re.MULTILINE)
IMPORT_FOR_SWITCH = "import sys\n"


def sources() -> list[Path]:
    """The lessons, in order."""
    return sorted(HERE.glob("[0-9]_*.py"))


def cells(source: str, language: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) for each cell of one language.

    >>> cells('# %% [markdown] en\\n# Hello\\n# %% [markdown] es\\n# Hola\\n# %%\\nx = 1\\n', "es")
    [('markdown', 'Hola'), ('code', 'x = 1')]
    """
    found = []
    for part in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        kind, _, spoken = head.strip().partition("] ")
        if kind == "[markdown":
            if spoken.strip() == language:
                lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
                found.append(("markdown", "\n".join(lines)))
        else:
            found.append(("code", _code(body, language)))
    return found


def _code(body: str, language: str) -> str:
    lines = []
    for line in body.strip().splitlines():
        tag = re.match(r"^(\s*)# (en|es): ", line)
        if tag is None:
            lines.append(line)
        elif tag[2] == language:
            lines.append(f"{tag[1]}# {line[tag.end() :]}")
    code = "\n".join(lines)
    if SWITCH.search(code):
        code = SWITCH.sub(f'LANGUAGE = "{language}"', code).replace(IMPORT_FOR_SWITCH, "")
    return code.strip()


def notebook(path: Path, language: str) -> str:
    """The notebook of one lesson in one language, as text."""
    import nbformat
    from nbformat import v4

    made = v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    for i, (kind, text) in enumerate(cells(path.read_text(encoding="utf-8"), language)):
        cell = v4.new_markdown_cell(text) if kind == "markdown" else v4.new_code_cell(text)
        cell["id"] = f"cell-{i}"
        made.cells.append(cell)
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def target(path: Path, language: str) -> Path:
    return HERE / language / path.with_suffix(".ipynb").name


def main(check: bool) -> int:
    stale = []
    for language in LANGUAGES:
        for path in sources():
            text, place = notebook(path, language), target(path, language)
            if check:
                if not place.exists() or place.read_text(encoding="utf-8") != text:
                    stale.append(str(place.relative_to(HERE)))
            else:
                place.parent.mkdir(exist_ok=True)
                place.write_text(text, encoding="utf-8")
    if stale:
        print(f"not up to date: {', '.join(stale)}; run python examples/lessons/build.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
