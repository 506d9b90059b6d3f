"""Two programs side by side: where their lines part, and where their numbers do."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from .reading import said, shape
from .tape import Line

if TYPE_CHECKING:
    from .listing import Program

_NUMBERED = re.compile(r"\b[vgu]\d+[a-h]?\b")  # such a name changes with every line before it


def diff(one: Program, two: Program, numbers: bool = False) -> str:
    """The lines that only the first (-) or only the second (+) has; numbers: the norms of both where they differ in a
    line that both have (=)."""
    norms = [program.run(trace=True).norms if numbers else {} for program in (one, two)]
    keys = [[_key(line, text) for line, text in zip(p.lines, p.texts)] for p in (one, two)]
    rows = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind == "equal":
            for i, j in zip(range(a, b), range(c, d)):
                before, after = norms[0].get(i + 1), norms[1].get(j + 1)
                if before is not None and after is not None and before != after:
                    rows.append(f"= {_row(one, i)}   norm {before:.4g} | {after:.4g}")
        else:
            rows += [f"- {_row(one, i)}" for i in range(a, b)] + [f"+ {_row(two, j)}" for j in range(c, d)]
    return "\n".join(rows) or "the same lines"


def _key(line: Line, text: str) -> tuple[str, str, str, str]:
    """What a line is, whatever its number."""
    return line.phase, line.rule, " ".join(map(shape, line.makes)), _NUMBERED.sub("_", text)


def _row(program: Program, i: int) -> str:
    return f"{i + 1:4}  {program.texts[i]}   # {said(program.lines[i])}"
