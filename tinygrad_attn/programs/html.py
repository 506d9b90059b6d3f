"""A program as a page: folded by module; a name under the pointer lights up where it is made and used."""

from __future__ import annotations

import html
import re
from itertools import groupby
from typing import TYPE_CHECKING

from ..show.page import page
from .reading import said, totals

if TYPE_CHECKING:
    from .listing import Program

_STYLE = ".program b{font-weight:600;cursor:default}.program b.lit{background:#ffd54f;color:#000}.program pre{margin:0}"
_SCRIPT = """for (const box of document.querySelectorAll('.program')) for (const kind of ['mouseover', 'mouseout'])
  box.addEventListener(kind, (event) => { if (event.target.dataset.name)
    for (const word of box.querySelectorAll('[data-name="' + event.target.dataset.name + '"]'))
      word.classList.toggle('lit', kind === 'mouseover') })"""


def fragment(program: Program) -> str:
    """The program as HTML for a notebook's cell."""
    known = {
        program.name(v) for line in program.lines for v in (*line.makes, *line.reads) if not program.stands_inside(v)
    }

    def lit(text: str) -> str:
        words = (html.escape(word) for word in re.split(r"(\w+)", text))
        return "".join(f'<b data-name="{word}">{word}</b>' if word in known else word for word in words)

    parts = []
    for (phase, scope), pairs in groupby(
        zip(program.lines, program.texts), key=lambda pair: (pair[0].phase, pair[0].scope)
    ):
        rows = [f"{line.number:4}  {lit(text)}   # {html.escape(said(line))}" for line, text in pairs]
        head = html.escape(f"{phase} {scope}".strip())
        parts.append(
            f"<details open><summary>{head}, {len(rows)} calls</summary><pre>" + "\n".join(rows) + "</pre></details>"
        )
    foot = html.escape("\n".join(totals(program)))
    return f'<div class="program">{"".join(parts)}<pre>{foot}</pre></div>'


def in_a_cell(program: Program) -> str:
    return f"<style>{_STYLE}</style>{fragment(program)}<script>{_SCRIPT}</script>"


def whole(program: Program) -> str:
    """The program as one page that opens from disk."""
    return page("The program of a step", f"<h1>The program of a step</h1>{fragment(program)}", _STYLE, _SCRIPT)
