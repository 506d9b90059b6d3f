"""From a recorded position (code object, instruction offset) back to the user's file and line."""

from __future__ import annotations

import linecache
import os
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
