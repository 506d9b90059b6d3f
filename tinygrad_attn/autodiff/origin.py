"""Back to the source: from a recorded position (code object, instruction offset) to the user's line, from a rule to
its formula."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
from collections.abc import Callable
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_APPLICATIONS = tuple(_PACKAGE + room for room in ("tasks", "train", "lab", "pages", "show", "files", "sweep", "cli"))


class _IsInside(dict[str, bool]):
    """file name -> does it belong to the engine?  (A lookup costs 25 ns, the test itself 200 ns.)"""

    def __missing__(self, filename: str) -> bool:
        inside = filename.startswith(_PACKAGE) and not filename.startswith(_APPLICATIONS)
        self[filename] = inside
        return inside


is_inside = _IsInside()


def line_number(code: Any, offset: int) -> int:
    """The source line of the instruction at `offset` in `code`."""
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return number


def source_line(code: Any, offset: int) -> str:
    """The text of that line, without its indentation ("" where the source is not at hand)."""
    return linecache.getline(code.co_filename, line_number(code, offset)).strip()


def describe(code: Any, offset: int) -> str:
    """``train.py:12: scores = q @ k.mT``, for error messages."""
    text = source_line(code, offset)
    place = f"{os.path.basename(code.co_filename)}:{line_number(code, offset)}"
    return f"{place}: {text}" if text else place


def formula(rule: Callable[..., Any]) -> str:
    """A rule as its source says it: the body of a lambda, ``g * out``; of a function its call, ``_base(g, x, y)``."""
    code = inspect.unwrap(rule).__code__
    names = code.co_varnames[: code.co_argcount]
    same = [
        found
        for found in _lambdas("".join(linecache.getlines(code.co_filename)))
        if found.lineno == code.co_firstlineno and tuple(argument.arg for argument in found.args.args) == names
    ]
    if len(same) > 1:  # several on a line: the one whose body holds the instructions
        places = [
            (line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None
        ]
        line, column = places[-1]
        holds = [
            n for n in same if n.body.lineno <= line and n.body.col_offset <= column < (n.body.end_col_offset or 0)
        ]
        same = holds or same
    if not same or rule.__name__ != "<lambda>":
        return f"{rule.__name__}({', '.join(names)})"
    text = ast.get_source_segment("".join(linecache.getlines(code.co_filename)), same[0].body) or ""
    return " ".join(text.split())


@functools.lru_cache(maxsize=32)
def _lambdas(text: str) -> list[ast.Lambda]:  # by the text: a cell of a notebook is edited under the same name
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
