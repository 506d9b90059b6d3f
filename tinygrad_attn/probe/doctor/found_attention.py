"""FoundAttention: one attention in a graph, explicit, hand-made or fused, with its scale, mask, lines and weights.

The weights of fused attention are made again block by block: memory stays linear in the sequence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...attention.call import Call
from ...attention.fused_op import fused_attention
from ...attention.kernels import Operands, block
from ...attention.masks import visible
from ...autodiff.arrays import to_host
from ...autodiff.graph import Node
from ...autodiff.ops.choice import clip, maximum, minimum, where
from ...autodiff.ops.elementwise import add, astype, div, mul, sub
from ...autodiff.ops.mask import masked_fill
from ...autodiff.ops.matmul import einsum, matmul, parsed
from ...autodiff.ops.shape import reshape
from ...autodiff.ops.softmax import softmax
from ..meters import meters
from .evidence import Evidence

_BEFORE = {f.op for f in (masked_fill, where, add, sub, mul, div, astype, maximum, minimum, clip, reshape)}
_AFTER = {f.op for f in (masked_fill, where, mul, div, astype)}  # between softmax and the product with v
_BLOCK = 1 << 18  # entries of the weights that are made again at a time

Blocks = Iterable[tuple[np.ndarray, np.ndarray | None]]  # (weights (..., r, n_k), who may be seen)


@dataclass
class FoundAttention:
    """shape of the weights (..., n_q, n_k); axis: what softmax runs over; d: the length that q k^T sums over.
    scale: the factor on q k^T, None where it is learned or unknown.  mask: True = may attend.
    gradient: dL/dweights, of fused attention dL/dout.  after: (how many weights were set to 0 after softmax, line)."""

    node: Node
    shape: tuple[int, ...]
    axis: int = -1
    d: int | None = None
    scale: float | None = 1.0
    scale_line: str = ""
    mask: np.ndarray | None = None
    mask_line: str = ""
    gradient: np.ndarray | None = None
    after: tuple[int, str] | None = None
    weights: Weights = field(default_factory=lambda: Weights())

    @property
    def heads(self) -> int:
        return self.shape[-3] if len(self.shape) >= 4 else 1


class Weights:
    """What is asked of the weights, added up over blocks of rows.
    finite: all of them.  dead, rows: by head, how many rows let no gradient through, of those with a choice."""

    def __init__(self, blocks: Blocks = ()) -> None:
        self.finite, self._squares, self._freedom = True, 0.0, 0
        self.dead: Counter[int] = Counter()
        self.rows: Counter[int] = Counter()
        for weights, keep in blocks:
            self.finite = self.finite and bool(np.isfinite(weights).all())
            if self.finite:
                self._add_scores(weights)
                apart = (
                    weights.shape if weights.ndim >= 4 else (-1, weights.shape[-1])
                )  # without heads: all rows together
                seen = None if keep is None else np.broadcast_to(keep, weights.shape).reshape(apart)
                for head, one in enumerate(meters(weights.reshape(apart), seen)):
                    self.dead[head] += round(one.dead * one.rows)
                    self.rows[head] += one.rows

    def _add_scores(self, weights: np.ndarray) -> None:
        """log p differs from what went into softmax by a constant per row."""
        p = weights.astype(np.float64)
        seen = p > 0
        count = seen.sum(axis=-1)
        logs = np.log(np.where(seen, p, 1.0))
        mean = logs.sum(axis=-1) / np.maximum(count, 1)
        squares = np.where(seen, (logs - mean[..., None]) ** 2, 0.0).sum(axis=-1)
        self._squares += float(squares[count > 1].sum())
        self._freedom += int((count[count > 1] - 1).sum())

    @property
    def score_std(self) -> float:
        """The standard deviation of what went into softmax, within rows; NaN where no row has two keys."""
        return math.sqrt(self._squares / self._freedom) if self._freedom else math.nan


def attentions(e: Evidence) -> Iterator[FoundAttention]:
    """Every attention that the loss depends on, in forward order."""
    for node in reversed(e.order):
        if node.op is fused_attention.op:
            yield _fused(e, node)
        elif node.op is softmax.op and "out" in node.saved and _is_mixed(e, node):
            yield _explicit(e, node)


def _is_mixed(e: Evidence, node: Node) -> bool:
    """Is this softmax multiplied with values (weights @ v), possibly after dropout or a mask?"""
    return any(
        user.op is einsum.op or (user.op is matmul.op and argument == "x") or (user.op in _AFTER and _is_mixed(e, user))
        for user, argument in e.consumers.get(node, ())
    )


# ---------------------------------------------------------------------------- fused


def _fused(e: Evidence, node: Node) -> FoundAttention:
    q, k, call = (node.saved[name] for name in ("q", "k", "call"))
    shape = (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
    found = FoundAttention(node, shape, d=q.shape[-1], scale=call.scale, scale_line=node.line, mask_line=node.line)
    found.mask = None if call.mask is None else to_host(call.mask)
    found.gradient = to_host(e.gradients[node]) if node in e.gradients else None
    found.weights = Weights(_blocks(node.saved, call, shape))
    return found


def _blocks(saved: dict[str, Any], call: Call, shape: tuple[int, ...]) -> Blocks:
    """The weights of a fused node, made again in float64 from what it saved."""
    q, k, v = (saved[name].astype(np.float64) for name in ("q", "k", "v"))
    operands = Operands(q, k, v, saved["bias"], call)
    step = max(1, _BLOCK * shape[-2] // max(1, math.prod(shape)))
    for start in range(0, shape[-2], step):
        rows = slice(start, min(start + step, shape[-2]))
        weights = block(operands, None, rows, slice(None))["weights"]
        mask = None if call.mask is None else np.broadcast_to(to_host(call.mask), shape)[..., rows, :]
        yield to_host(weights), visible(mask, call.offset, rows, shape[-1], np)


# ---------------------------------------------------------------------------- explicit, or written by hand


def _explicit(e: Evidence, node: Node) -> FoundAttention:
    weights, axis = to_host(node.saved["out"]), int(node.saved["axis"])
    found = FoundAttention(node, weights.shape, axis if axis < 0 else axis - weights.ndim)
    found.gradient = to_host(e.gradients[node]) if node in e.gradients else None
    above = node.inputs[0][1]
    while above is not None and above.op in _BEFORE:
        _read_step(found, above, weights)
        flowing = [parent for _, parent in above.inputs if parent is not None]
        if len(flowing) > 1 and above.op in (mul.op, div.op):
            found.scale = None  # learned: a temperature
        above = max(flowing, key=lambda parent: math.prod(parent.shape), default=None)  # not the learned bias
    found.d = None if above is None else _contracted(above)
    found.scale = None if found.d is None else found.scale
    found.scale_line = found.scale_line or (node if above is None else above).line
    found.after = _masked_after(e, node, weights)
    found.weights = Weights([(np.moveaxis(weights, axis, -1), found.mask if found.axis == -1 else None)])
    return found


def _contracted(node: Node) -> int | None:
    """The length that a product of queries and keys sums over; None for another operation."""
    saved = node.saved
    if node.op is matmul.op:
        shape = saved["x_shape"] if "x_shape" in saved else saved["x"].shape
        return int(shape[-1]) if shape else None
    if node.op is einsum.op and len(saved["operands"]) == 2:
        x, y = saved["operands"]
        (left, right), out = parsed(saved["subscripts"], [x.ndim, y.ndim])
        return math.prod(n for letter, n in zip(left, x.shape) if letter in right and letter not in out)
    return None


def _read_step(found: FoundAttention, node: Node, weights: np.ndarray) -> None:
    """What one operation between scores and softmax does: scale or mask."""
    masks = []
    if node.op is masked_fill.op:
        masks = [~_booleans(node.saved["mask"])]
    elif node.op is where.op and "condition" in node.saved:
        condition = _booleans(node.saved["condition"])
        masks = [condition, ~condition]
    for keep in masks:
        if not keep.all() and not (weights[~np.broadcast_to(keep, weights.shape)] > 0).any():  # no weight there
            found.mask = keep if found.mask is None else found.mask & keep
            found.mask_line = node.line
            break
    other = _constant_factor(node)
    if other is not None and np.size(other) == 1 and found.scale is not None:
        factor = float(np.reshape(other, ()))
        found.scale *= factor if node.op is mul.op else 1.0 / factor if factor else 1.0
        found.scale_line = node.line


def _booleans(mask: Any) -> np.ndarray:
    return np.asarray(to_host(mask) if hasattr(mask, "dtype") else mask).astype(bool)


def _constant_factor(node: Node) -> Any:
    """What a product or quotient multiplies or divides its one tensor by; None for another operation."""
    if node.op not in (mul.op, div.op) or all(parent is not None for _, parent in node.inputs):
        return None
    other: Any = node.saved.get("y", node.saved.get("x"))
    return to_host(other) if hasattr(other, "ndim") and other.ndim else other


def _masked_after(e: Evidence, node: Node, weights: np.ndarray) -> tuple[int, str] | None:
    """Weights that a mask set to 0 after softmax: (how many, line)."""
    for user, _ in e.consumers.get(node, ()):
        hidden: Any = None
        if user.op is masked_fill.op:
            hidden = _booleans(user.saved["mask"])
        elif user.op is mul.op:
            other = _constant_factor(user)
            hidden = other == 0 if np.ndim(other) and np.isin(other, (0, 1)).all() else None
        count = int((weights[np.broadcast_to(hidden, weights.shape)] > 0).sum()) if np.ndim(hidden) else 0
        if count:
            return count, user.line
    return None
