"""Events: every operation that runs in a block, with its inputs, result and line; also those that leave the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...autodiff.graph import LEAF, Op, Traced, calling_line
from ...autodiff.mode import listening
from ...autodiff.origin import describe


@dataclass(eq=False)
class Event:
    """An operation, or (op LEAF) a way off the graph: how is "detach()", ".data", "numpy()", "item()", "Tensor(...)".
    inputs: Tensors and arrays as they came.  out: what came out."""

    op: Op
    how: str
    inputs: list[Any]
    out: Any
    line: str

    @property
    def taped(self) -> bool:
        return self.op is not LEAF and isinstance(self.out, Traced) and self.out._node is not None


@contextmanager
def followed() -> Iterator[list[Event]]:
    """The events of this thread, in order.

    >>> import tinygrad_attn as ta
    >>> with followed() as events:
    ...     y = ta.exp(ta.ones(2)) * 3.0
    >>> [event.how for event in events if event.op.name != "leaf"]
    ['exp', 'mul']
    """
    events: list[Event] = []

    def heard(what: Any, given: list[Any], out: Any, frame: Any) -> None:
        op, how = (what, what.name) if isinstance(what, Op) else (LEAF, what)
        inputs = [x for x in given if isinstance(x, Traced) or hasattr(x, "dtype") or how == "Tensor(...)"]
        events.append(Event(op, how, inputs, out, describe(*calling_line(frame))))

    with listening(heard):
        yield events


def same_memory(a: Any, b: Any) -> bool:
    """Is array `a` the array `b`, or a view of it?"""
    both = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    return a is b or (both and a.size > 0 and np.may_share_memory(a, b))
