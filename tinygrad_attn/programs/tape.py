"""The tape: one line for each array call, with what it read, what it made, and who asked for it.

A value is an array that a call made, or one that was there before (a parameter, an input, a constant).  Where an
array shares its memory with another one, both are places in one buffer: so the program edits what the step edited."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..autodiff import backward, recording, walk
from ..autodiff.graph import Node, Op
from ..autodiff.mode import current
from ..autodiff.origin import describe, is_inside
from .errors import ProgramError

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OPTIM = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "optim") + os.sep
_NUMPY = os.path.dirname(np.__file__) + os.sep
_FORWARD, _WALK, _DELIVERY = recording.__file__, walk.__file__, backward.__file__


@dataclass(eq=False)
class Value:
    """One array of the step.  `line`: the one that made it; None for what was there before (then `buffer` holds it)."""

    array: np.ndarray
    line: Line | None = None
    name: str | None = None
    buffer: Buffer | None = None
    viewed: Value | None = None  # whose memory it shows; None where it owns its own
    used: int = 0

    @property
    def owner(self) -> Value:
        found = self
        while found.viewed is not None:
            found = found.viewed
        return found


@dataclass(eq=False)
class Buffer:
    """Memory that was there before: the array that owns it, and what it held when the step first came to it."""

    array: np.ndarray
    before: np.ndarray
    values: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Line:
    """One array call.  form: call, method, get, set, attribute, infix or look; phase: forward, backward or update.
    op: the operation ("matmul"); rule: what it gives in backward ("dL/dx"); inside: the function of ours that called;
    group: equal for the lines of one operation."""

    form: str
    what: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reads: list[Value]
    phase: str
    op: str
    rule: str
    inside: str
    scope: str
    place: str  # ``lesson.py:14: scores = q @ k.mT``
    group: Any
    makes: list[Value] = field(default_factory=list)
    many: type | None = None  # tuple or list where the call gives several
    view: bool = False
    answer: Any = None  # of a look
    flops: int = 0
    number: int = 0

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return 0 if self.view else sum(v.array.nbytes for v in (*self.reads, *self.makes))


class Tape:
    """The lines of one run, in order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.buffers: dict[int, Buffer] = {}
        self.outside: dict[int, Value] = {}  # id of an array that was there before -> its value
        self.made: dict[int, Value] = {}  # id of an array that a call made and that owns its memory
        self.read: Line | None = None  # a number that the user's Python has read
        self.group = 0  # counts the operations: the listener adds one after each

    def heard(self, what: Any, given: Any, out: Any, frame: Any) -> None:
        self.group += 1

    # ------------------------------------------------------------------------ values

    def value(self, array: np.ndarray) -> Value:
        """The value of an array that no call on this tape made: a place in a buffer that was there before."""
        found = self.outside.get(id(array))
        if found is None:
            root = root_of(array)
            found = Value(array)
            if id(root) in self.made:  # a view of something made here, by ways that no call shows
                found.viewed = self.made[id(root)]
                self.add("view", "", (found.viewed, array), {}).makes.append(found)
                found.line = self.lines[-1]
            else:
                buffer = self.buffers.get(id(root))
                if buffer is None:
                    buffer = self.buffers[id(root)] = Buffer(root, root.copy(order="K"))
                buffer.values.append(found)
                found.buffer = buffer
            self.outside[id(array)] = found
        return found

    # ------------------------------------------------------------------------ lines

    def add(self, form: str, what: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Line:
        """Note a call; args and kwargs hold a Value where the call had an array."""
        reads = list(values_in((args, kwargs)))
        line = Line(form, what, args, kwargs, reads, **_asked_by(self))
        if self.read is not None and form != "look":
            raise ProgramError(
                f"a number was read in mid-step at {self.read.place}\n  what follows could depend on it, "
                f"and the program would not know; return the tensor and read it after the step"
            )
        if form == "look" and what != "bool" and line.inside in ("", "item", "tolist"):
            self.read = line
        self.lines.append(line)
        for value in reads:
            value.used += 1
        return line

    def result(self, line: Line, array: np.ndarray) -> Value:
        """The value that `line` made."""
        made = Value(array, line)
        root = root_of(array)
        shown = [v for v in line.reads if root_of(v.array) is root] if line.form != "look" else []
        if shown:
            made.viewed, line.view = shown[0], True
        elif root is array:
            self.made[id(array)] = made
        line.makes.append(made)
        line.flops += _flops(line, array)
        return made


def values_in(part: Any) -> Iterator[Value]:
    if isinstance(part, Value):
        yield part
    elif isinstance(part, (tuple, list)):
        for each in part:
            yield from values_in(each)
    elif isinstance(part, dict):
        for each in part.values():
            yield from values_in(each)
    elif isinstance(part, slice):
        yield from values_in((part.start, part.stop, part.step))


def root_of(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


# ---------------------------------------------------------------------------- who asked


def _asked_by(tape: Tape) -> dict[str, Any]:
    """Who asked for the call that is being noted, from the frames above it: the operation (or the node whose rule
    runs), the function of ours that called, and the user's line."""
    frame: Any = sys._getframe(2)
    inside, op, node, phase, codes = "", None, None, "forward", set()
    while frame is not None and (is_inside[frame.f_code.co_filename] or frame.f_code.co_filename.startswith(_NUMPY)):
        code, file = frame.f_code, frame.f_code.co_filename
        if file.startswith(_NUMPY):  # a decorator of NumPy's around a rule: np.errstate
            codes.add(code)
        elif not file.startswith(_HERE):
            inside = inside or ("" if code.co_name.startswith("<") else code.co_name)
            codes.add(code)
            if file == _FORWARD and code.co_name == "call" and op is None:
                op = frame.f_locals.get("op")
            elif file == _WALK and code.co_name == "_hand_on":
                node = frame.f_locals.get("node")
            if file in (_WALK, _DELIVERY):
                phase = "backward"
            elif file.startswith(_OPTIM):  # the outermost says it: AdamW, clip_grad_norm
                phase, owner = "update", frame.f_locals.get("self")
                op = code.co_name if owner is None else type(owner).__name__
        frame = frame.f_back
    if isinstance(node, Node):
        return {**_backward(node, codes), "phase": "backward", "inside": inside, "group": node}
    name = op.name if isinstance(op, Op) else op or ""
    return {
        "phase": phase,
        "op": name or ("backward" if phase == "backward" else inside.strip("_")),
        "rule": "",
        "inside": inside,
        "scope": current().scope,
        "group": (tape.group, phase, name),
        "place": "" if frame is None else describe(frame.f_code, frame.f_lasti),
    }


def _backward(node: Node, codes: set[Any]) -> dict[str, Any]:
    op = node.op
    names = op.names_of(len(node.parents or ()))
    given = [f"dL/d{name}" for name, rule in zip(names, op.rules) if rule.__code__ in codes]
    if op.joint is not None and op.joint.__code__ in codes:
        given = [f"dL/d{name}" for name, parent in zip(names, node.parents or ()) if parent is not None]
    return {"op": op.name, "rule": ", ".join(given), "scope": node.scope, "place": node.line}


def _flops(line: Line, out: np.ndarray) -> int:
    """Floating-point operations, one for each entry of an elementwise call; 0 for what only moves numbers."""
    if line.view or line.form in ("get", "set", "attribute") or out.dtype.kind not in "fb":
        return 0
    arrays = [v.array for v in line.reads]
    if line.what in ("np.matmul", "np.dot", "np.vdot", "np.inner"):
        return 2 * out.size * arrays[0].shape[-1] if arrays and arrays[0].ndim else 0
    if line.what.startswith("np.") and not line.what.startswith(_MOVES):
        return max([out.size, *(a.size for a in arrays)])
    return max([a.size for a in arrays], default=0) if line.what in _COUNTED else 0


_MAKERS = "empty zeros ones full asarray array ascontig arange copyto broadcast stack conc"
_MOVES = tuple("np." + name for name in _MAKERS.split())
_COUNTED = frozenset(("sum", "mean", "max", "min", "prod", "var", "std", "cumsum", "any", "all"))
