"""Capture: one named tensor of one forward pass, with its value and, once backward came by, its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.arrays import to_host
from ..autodiff.graph import LEAF
from ..autodiff.ops.softmax import softmax
from ..autodiff.tensor import Tensor
from .zeros import Spread, kinds_of_zero, log_softmax_gradient, row_norms, spread

BEFORE_SOFTMAX = frozenset({"scores", "scaled", "masked"})
PER_HEAD = BEFORE_SOFTMAX | {"q", "k", "v", "weights", "mix"}  # names of attention: (..., heads, n, d)


class AttentionCall:
    """The steps of one attention call, so that one tensor's zeros can be explained by another's values."""

    def __init__(self) -> None:
        self.steps: dict[str, Capture] = {}

    def softmax_input(self) -> np.ndarray | None:
        """What went into softmax, if it was seen (a bias without a mask is added without a name)."""
        step = self.steps.get("masked") or self.steps.get("scaled")
        weights = self.steps.get("weights")
        if step is None or weights is None or step.data.shape != weights.data.shape:
            return None
        s, p = to_host(step.data).astype(np.float64), to_host(weights.data)
        with np.errstate(invalid="ignore", over="ignore"):
            again = softmax(s, -1)
        near = 4e-3 if p.dtype == np.float16 else 1e-5
        return s if np.allclose(again, p, rtol=0, atol=near, equal_nan=True) else None

    def scale(self) -> float:
        """The factor between scores and scaled, read off their largest entries."""
        scaled, scores = self.steps.get("scaled"), self.steps.get("scores")
        if scaled is None or scores is None or not scores.data.size:
            return 1.0
        place = np.unravel_index(np.nanargmax(np.abs(to_host(scores.data))), scores.data.shape)
        bottom = float(scores.data[place])
        return float(scaled.data[place]) / bottom if bottom else 1.0


class Capture:
    """path, data: the name and the values (the array itself; a copy of a leaf, which may be edited later).
    gradient: dL/d(it), or None so far.  line: what made it.  wants: does it have a graph?"""

    __slots__ = ("path", "data", "gradient", "wants", "line", "call", "heads", "number")

    def __init__(self, path: str, tensor: Any, call: AttentionCall, heads: int | None, number: int, line: str) -> None:
        leaf = tensor._node is None or tensor._node.op is LEAF
        self.path, self.data = path, tensor._data.copy() if leaf else tensor._data
        self.gradient: Any = None
        self.wants, self.line = tensor._node is not None, line
        self.call, self.number = call, number
        self.heads = heads

    @property
    def step(self) -> str:
        return self.path.rpartition(".")[2]

    # ------------------------------------------------------------------------ heads apart

    def head_axis(self) -> int | None:
        """-3 where the array is (..., heads, n, d), else None."""
        if self.step not in PER_HEAD or self.data.ndim < 3:
            return None
        if self.heads is not None:
            return -3 if self.data.shape[-3] == self.heads else None
        return -3 if self.data.ndim >= 4 else None

    def count(self) -> int:
        return 1 if self.head_axis() is None else self.data.shape[-3]

    def of_head(self, array: Any, head: int) -> Any:
        return array if self.head_axis() is None else array[..., head, :, :]

    def value(self) -> Tensor:
        return Tensor(self.data)

    # ------------------------------------------------------------------------ what the gradient says

    def spreads(self, dead: float) -> list[Spread]:
        """One per head."""
        kinds, arrived, live = self._explained()
        return [
            spread(
                self.of_head(self.gradient, head),
                self.of_head(kinds, head),
                None if arrived is None else self.of_head(arrived[..., None], head)[..., 0],
                None if live is None else self.of_head(live[..., None], head)[..., 0],
                dead,
            )
            for head in range(self.count())
        ]

    def kinds(self) -> np.ndarray:
        """For each entry of the gradient a kind of zero (see zeros.KINDS)."""
        return self._explained()[0]

    def _explained(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """(kind of each entry, norm of what arrived per row, rows that could have a gradient)."""
        weights = self.call.steps.get("weights")
        if self.step not in BEFORE_SOFTMAX or weights is None or weights.gradient is None:
            return kinds_of_zero(self.gradient, None), None, None
        inputs = self.call.softmax_input()
        if inputs is None or inputs.shape != self.data.shape:
            return kinds_of_zero(self.gradient, None), None, None
        log_exact = log_softmax_gradient(inputs, weights.gradient)
        factor = abs(self.call.scale()) if self.step == "scores" else 1.0
        with np.errstate(divide="ignore"):
            log_exact = log_exact + np.log(factor)
        arrived = row_norms(to_host(weights.gradient).astype(np.float64)) * factor
        live = ((inputs > -np.inf).sum(axis=-1) > 1) & (arrived > 0)
        return kinds_of_zero(self.gradient, log_exact), arrived, live
