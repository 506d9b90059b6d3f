"""Lines as Python: what is printed is what runs."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import ProgramError
from .tape import Line, Value

# fmt: off
INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "less": "<", "less_equal": "<=",
         "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "bitwise_and": "&", "bitwise_or": "|"}
# fmt: on
IN_PLACE = ("+", "-", "*", "/")
_EDITS = ("np.copyto", "fill", "sort", "put", "partition")  # calls that write to their first argument
Names = Callable[[Value], str]


def identifier(name: str) -> str:
    """A name of ours as one of Python's: ``blocks.0.attn.W_Q`` is ``blocks_0_attn_W_Q``."""
    word = re.sub(r"\W", "_", name)
    return word if word.isidentifier() and not keyword.iskeyword(word) else f"v_{word}"


def text_of(line: Line, name: Names) -> str:
    """The call as Python, without the name of what it makes."""
    args = [literal(x, name, line) for x in line.args]
    if line.form == "call":
        out = line.kwargs.get("out")
        sign = INFIX.get(line.what.removeprefix("np."))
        if sign and len(args) == 2 and not line.kwargs:
            return f"{args[0]} {sign} {args[1]}"
        if sign in IN_PLACE and len(args) == 2 and list(line.kwargs) == ["out"] and out is line.args[0]:
            return f"{args[0]} {sign}= {args[1]}"
        return f"{line.what}({_joined(args, line, name)})"
    if line.form == "method":
        return f"{args[0]}.{line.what}({_joined(args[1:], line, name)})"
    if line.form == "get":
        return f"{args[0]}[{_index(line.args[1], name, line)}]"
    if line.form == "set":
        return f"{args[0]}[{_index(line.args[1], name, line)}] = {args[2]}"
    if line.form == "attribute":
        return f"{args[0]}.{line.what}"
    if line.form == "view":
        return placed(line.makes[0].array, line.reads[0].array, args[0])
    return _guard(line, args[0])


def _joined(args: list[str], line: Line, name: Names) -> str:
    return ", ".join([*args, *(f"{key}={literal(x, name, line)}" for key, x in line.kwargs.items())])


def _guard(line: Line, read: str) -> str:
    if line.what == "tolist":
        return f"assert {read}.tolist() == {line.answer!r}"
    if line.what == "bool":
        return f"assert bool({read}) is {line.answer!r}"
    if line.answer != line.answer:
        return f"assert np.isnan({read})"
    return f"assert {read}.item() == {literal(line.answer, str, line)}"


def placed(array: np.ndarray, owner: np.ndarray, called: str) -> str:
    """An array as a place in the memory of `owner`."""
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return f"np.ndarray({array.shape}, np.dtype({array.dtype.str!r}), {called}, {offset}, {array.strides})"


def literal(x: Any, name: Names, line: Line) -> str:
    """An argument as Python."""
    if isinstance(x, Value):
        return name(x)
    if isinstance(x, float) and not isinstance(x, np.generic):
        return repr(x) if np.isfinite(x) else {"inf": "np.inf", "-inf": "-np.inf"}.get(repr(x), "np.nan")
    if x is None or x is Ellipsis or isinstance(x, (bool, int, str, np.generic)):
        return "..." if x is Ellipsis else repr(x) if not isinstance(x, np.generic) else _scalar(x)
    if isinstance(x, (tuple, list)):
        parts = ", ".join(literal(part, name, line) for part in x)
        return f"[{parts}]" if isinstance(x, list) else f"({parts}{',' * (len(x) == 1)})"
    if isinstance(x, slice):
        return f"slice({', '.join(literal(part, name, line) for part in (x.start, x.stop, x.step))})"
    if isinstance(x, (np.dtype, type)):
        dtype = np.dtype(x)
        if dtype.kind == "b":
            return "bool"
        return f"np.{dtype.name}" if dtype.isnative and dtype.kind in "iuf" else f"np.dtype({dtype.str!r})"
    raise ProgramError(
        f"{line.what or line.form} at {line.place}: a {type(x).__name__} among its arguments has no text"
    )


def _scalar(x: np.generic) -> str:
    return f"np.{x.dtype.name}({literal(x.item(), str, None)})"  # type: ignore[arg-type]


def _index(index: Any, name: Names, line: Line) -> str:
    """What stands between the brackets: ``..., 1:``."""
    if isinstance(index, tuple):
        return ", ".join(_index(part, name, line) for part in index) + "," * (len(index) == 1) if index else "()"
    if isinstance(index, slice):
        start, stop, step = ("" if p is None else literal(p, name, line) for p in (index.start, index.stop, index.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return literal(index, name, line)


def edits(line: Line) -> list[Value]:
    """The values that the call writes to."""
    out = line.kwargs.get("out")
    found = [each for each in (out if isinstance(out, tuple) else (out,)) if isinstance(each, Value)]
    if line.form == "set" or line.what in _EDITS or line.what.endswith(".at"):
        found.append(line.args[0])
    return found
