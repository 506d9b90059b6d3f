"""trace: every operation that runs in a block, with its inputs, result and line; also those that leave the tape.

Python itself reports the calls (``sys.setprofile``), so the engine knows nothing of it and pays nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff import recording as recorders
from ..autodiff.graph import Op, Traced, calling_line
from ..autodiff.origin import describe
from ..autodiff.tensor import Tensor


@dataclass
class Event:
    """An operation (op), or a way off the tape (op None): how is ``detach()``, ``.data``, ``.numpy()``, ``Tensor(...)``.
    inputs: Tensors and arrays as they came.  out: what came out."""

    op: Op | None
    how: str
    inputs: list[Any]
    out: Any
    line: str

    @property
    def taped(self) -> bool:
        return self.op is not None and isinstance(self.out, Traced) and self.out._node is not None


_DATA = Tensor.data.fget  # type: ignore[attr-defined]
_EXITS = {
    Tensor.detach.__code__: "detach()",
    Tensor.numpy.__code__: "numpy()",
    Tensor.item.__code__: "item()",
    Tensor.__init__.__code__: "Tensor(...)",
    _DATA.__code__: ".data",
}


@contextmanager
def trace() -> Iterator[list[Event]]:
    """The events of this thread, in order.

    >>> import tinygrad_attn as ta
    >>> with trace() as events:
    ...     y = ta.exp(ta.ones(2)) * 3.0
    >>> [event.how for event in events if event.op]
    ['exp', 'mul']
    """
    events: list[Event] = []
    running: dict[Any, list[Any]] = {}
    recorded_in = recorders.__file__

    def profile(frame: Any, kind: str, result: Any) -> None:
        code = frame.f_code
        is_op = code.co_name == "call" and code.co_filename == recorded_in
        if kind == "call":
            if is_op:
                running[frame] = _given(frame.f_locals)
            elif code in _EXITS:
                values = frame.f_locals
                running[frame] = [values["data"] if code is Tensor.__init__.__code__ else values["self"]]
        elif kind == "return" and frame in running:
            inputs = running.pop(frame)
            if is_op and isinstance(result, Traced):
                op = frame.f_locals["op"]
                events.append(Event(op, op.name, inputs, result, _line(frame)))
            elif not is_op and _EXITS[code] == "Tensor(...)":
                events.append(Event(None, _EXITS[code], inputs, frame.f_locals["self"], _line(frame)))
            elif not is_op:
                events.append(Event(None, _EXITS[code], inputs, result, _line(frame)))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield events
    finally:
        sys.setprofile(before)
        running.clear()


def _given(values: dict[str, Any]) -> list[Any]:
    """The Tensors and arrays among the arguments of a call that is about to run."""
    found: list[Any] = []
    stack = (
        [values["args"], list(values["kwargs"].values())] if "args" in values else [values.get("x"), values.get("y")]
    )
    while stack:
        value = stack.pop(0)
        if isinstance(value, (list, tuple)):
            stack = [*value, *stack]
        elif isinstance(value, Traced) or hasattr(value, "dtype"):
            found.append(value)
    return found


def _line(frame: Any) -> str:
    return describe(*calling_line(frame.f_back))


def same_memory(a: Any, b: Any) -> bool:
    """Is array `a` the array `b`, or a view of it?"""
    return a is b or (
        isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.size > 0 and np.may_share_memory(a, b)
    )
