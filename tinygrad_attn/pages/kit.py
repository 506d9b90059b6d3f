"""What both pages share: files of this folder, words in every language, and HTML for sliders, frames and tables.

say = speaker("es")
say("play.right", target="-s")  ->  "Lo correcto es -s."
"""

from __future__ import annotations

import html
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from ..lab.words import LANGUAGES

Speaker = Callable[..., str]


def asset(name: str) -> str:
    """A file of this folder as text."""
    return (files(__package__) / name).read_text(encoding="utf-8")


# ---------------------------------------------------------------------------- words


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """name -> language -> text, with {braces} where the page fills something in."""
    return tomllib.loads(asset("words.toml"))


def speaker(language: str) -> Speaker:
    """say(name, **values): the text of that name in one language.  `values` that may hold markup are escaped already.

    Errors: ValueError for another language; KeyError for a name or a value that is missing.

    >>> speaker("es")("head")
    'cabeza'
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    return lambda name, /, **values: catalogue()[name][language].format(**values)


def script_words(say: Speaker) -> dict[str, str]:
    """What the report's script says: the names that begin with ``script.``."""
    return {name.removeprefix("script."): say(name) for name in catalogue() if name.startswith("script.")}


# ---------------------------------------------------------------------------- parts of a page


def frames(pictures: Iterable[str], name: str) -> str:
    """Frames of which a slider called `name` shows one."""
    inside = "".join(f"<div class=frame{' hidden' if i else ''}>{picture}</div>" for i, picture in enumerate(pictures))
    return f'<div class=frames data-frames="{html.escape(name, quote=True)}">{inside}</div>'


def slider(place: str, name: str, label: str, values: Iterable[object], start: int = -1) -> str:
    """A slider over named places; it moves every set of frames, and every other slider, called `name`.

    place: its own id in the page.  start: the last place by default."""
    texts = [html.escape(str(value), quote=True) for value in values]
    start %= len(texts)
    return (
        f'<p class=control><label for="{place}">{html.escape(label)}</label>'
        f'<input id="{place}" type=range min=0 max={len(texts) - 1} value={start} data-slider="{name}" '
        f'data-values="{"|".join(texts)}"><output for="{place}">{texts[start]}</output></p>'
    )


def select(place: str, label: str, options: Iterable[object]) -> str:
    """A choice; its value is the option's place."""
    inside = "".join(f"<option value={i}>{option}</option>" for i, option in enumerate(options))
    return f'<label>{label} <select id="{place}">{inside}</select></label> '


def figure(caption: str, inside: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{inside}</figure>"


def number_table(rows: Mapping[str, Sequence[str]], head: Sequence[str] = ()) -> str:
    """Named rows of numbers that are written already; head: names of the columns, that of the names first."""
    top = f"<thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead>" if head else ""
    body = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for name, cells in rows.items()
    )
    return f'<div class=scroll tabindex=0><table class="small numbers">{top}<tbody>{body}</tbody></table></div>'
