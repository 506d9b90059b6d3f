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
from ...autodiff.graph import LEAF, Node
from ...autodiff.ops.matmul import einsum, matmul, parsed
from ...autodiff.ops.softmax import softmax
from ..meters import meters
from ..nodes import slope_of
from .evidence import Evidence

_BLOCK = 1 << 18  # entries of the weights that are made again at a time

Blocks = Iterable[tuple[np.ndarray, np.ndarray | None]]  # (weights (..., r, n_k), who may be seen)


@dataclass
class FoundAttention:
    """shape of the weights (..., n_q, n_k); axis: what softmax runs over; d: the length that q k^T sums over.
    scale: the factor on q k^T, None where it is learned or unknown.  mask: True = may attend.
    filled: some rows are hidden whole, by a number that is not -inf: they see every key.
    gradient: dL/dweights, of fused attention dL/dout.  after: (how many weights were set to 0 after softmax, line)."""

    node: Node
    shape: tuple[int, ...]
    axis: int = -1
    d: int | None = None
    scale: float | None = 1.0
    scale_line: str = ""
    mask: np.ndarray | None = None
    mask_line: str = ""
    filled: bool = False
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
                apart = weights.shape if weights.ndim >= 4 else (-1, weights.shape[-1])  # no heads: all rows together
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
        elif node.op is softmax.op and "out" in node.saved:
            mixes = list(_mixes(e, node))
            if mixes:
                yield _explicit(e, node, mixes)


# ---------------------------------------------------------------------------- fused


def _fused(e: Evidence, node: Node) -> FoundAttention:
    q, k, call = (node.saved[name] for name in ("q", "k", "call"))
    shape = (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
    found = FoundAttention(node, shape, d=q.shape[-1], scale=call.scale, scale_line=node.line, mask_line=node.line)
    found.mask = None if call.mask is None else to_host(call.mask)
    if node.saved["bias"] is not None and (to_host(node.saved["bias"]) == -np.inf).any():  # it hides, like a mask
        shown = to_host(node.saved["bias"]) > -np.inf
        found.mask = shown if found.mask is None else found.mask & shown
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


def _mixes(e: Evidence, node: Node) -> Iterator[tuple[Node, list[int]]]:
    """Where weights, or what was made of each of them, are multiplied with values: (the weights there, summed axes)."""
    for user, argument in e.consumers.get(node, ()):
        if user.op is einsum.op:
            letters, out, i = *_letters(user), [parent for _, parent in user.inputs].index(node)
            yield node, [axis for axis, letter in enumerate(letters[i]) if letter not in out]
        elif user.op is matmul.op:
            if argument == "x":
                yield node, [len(node.shape) - 1]
        elif user.shape == node.shape and sum(p is not None and p.shape == node.shape for _, p in user.inputs) == 1:
            yield from _mixes(e, user)


def _letters(node: Node) -> tuple[Any, str]:
    """The letters of each operand of an einsum, and of its result."""
    operands = node.saved["operands"]
    return parsed(node.saved["subscripts"], [len(x.shape) for x in operands])


def _explicit(e: Evidence, node: Node, mixes: list[tuple[Node, list[int]]]) -> FoundAttention:
    weights, axis = to_host(node.saved["out"]), int(node.saved["axis"]) % len(node.shape)
    found = FoundAttention(node, weights.shape, scale=None)
    found.gradient = to_host(e.gradients[node]) if node in e.gradients else None
    if not any(_add_up_to_one(e, *mix) for mix in mixes):
        found.after = _masked_after(e, node, weights)
        wrong = any(entering in e.values and axis not in axes for entering, axes in mixes)
        found.axis = axis - weights.ndim if wrong else -1
    if axis == weights.ndim - 1:
        _read_scores(e, found, weights)
    found.weights = Weights([(np.moveaxis(weights, axis, -1), found.mask)])
    return found


def _add_up_to_one(e: Evidence, entering: Node, axes: list[int]) -> bool:
    """Do the weights with which values are summed add up to 1 (or all to 0: a query that is left out)?"""
    if entering not in e.values or not axes:
        return False
    sums = e.values[entering].astype(np.float64).sum(axis=tuple(axes))
    return bool((np.minimum(abs(sums), abs(sums - 1.0)) < 1e-2).all())


def _masked_after(e: Evidence, node: Node, weights: np.ndarray) -> tuple[int, str] | None:
    """Weights that are set to 0 after softmax, in rows of which others stay: (how many, line)."""
    for user, _ in e.consumers.get(node, ()):
        if user.shape != node.shape or user.op in (matmul.op, einsum.op):  # what comes behind is no weight
            continue
        slope, count = slope_of(user, node), 0
        if np.isin(slope, (0, 1)).all():  # (dropout makes those that stay larger)
            gone = (slope == 0) & (weights > 0) & (e.values.get(user, 0.0) == 0)
            count = int((gone & (slope != 0).any(axis=-1, keepdims=True)).sum())
        after = (count, user.line) if count else _masked_after(e, user, weights)
        if after:
            return after
    return None


def multiples(node: Node) -> Iterator[tuple[Node, float]]:
    """What `node` is a constant multiple of, but for its shape, its dtype and a constant: (it, the factor)."""
    factor = 1.0
    while True:
        yield node, factor
        above = [parent for _, parent in node.inputs if parent is not None]
        if len(above) != 1 or math.prod(above[0].shape) != math.prod(node.shape):
            return
        slope = slope_of(node, above[0]).ravel()
        if not slope.size or slope[0] == 0 or not np.allclose(slope, slope[0], rtol=1e-3):
            return
        node, factor = above[0], factor * float(slope[0])


def _read_scores(e: Evidence, found: FoundAttention, weights: np.ndarray) -> None:
    """What happens to the product of queries and keys on its way into softmax: its slope is the scale, and an entry
    whose weight is 0, though it is scored no worse than others or has no slope, is hidden."""
    slope, below, above, learned = np.ones(weights.shape), found.node, found.node.inputs[0][1], False
    steps: list[tuple[Node, np.ndarray]] = []
    while above is not None and _contracted(above) is None:
        below, above = above, _largest(above)
        if above is None or math.prod(above.shape) != weights.size:
            above = None
            break
        now = slope_of(below, above, slope.reshape(below.shape)).reshape(weights.shape)
        if not np.allclose(now[now != 0], slope[now != 0], rtol=1e-3):
            learned = learned or sum(parent is not None for _, parent in below.inputs) > 1  # a temperature
            found.scale_line = below.line
        slope = now
        steps.append((below, slope))
    found.d = None if above is None else _contracted(above)
    live = np.abs(slope[slope != 0])
    scale = float(np.median(slope[slope != 0])) if live.size else 1.0
    if above is not None and not learned and (not live.size or live.max() < 1.5 * live.min()):
        found.scale = scale * _of_operands(found, above)
    hidden = (weights == 0) & ((slope == 0) | _well_scored(e, above, scale, weights))
    given = e.values.get(found.node.inputs[0][1])  # type: ignore[arg-type]
    if given is not None and hidden.any():  # rows that are hidden whole by a large number: each key alike
        whole = (given < -1e4).all(axis=-1, keepdims=True) & (weights > 0)
        found.filled = bool(whole.any())
        hidden |= whole
    if hidden.any():
        found.mask = _narrowed(~hidden)
        found.mask_line = found.node.line
        for step, now in steps:  # the one nearest to the product hid them, the others only pass it on
            values = e.values.get(step)
            if (now[hidden] == 0).all() or (
                values is not None and (values.reshape(weights.shape)[hidden] < -1e3).all()
            ):
                found.mask_line = step.line
    found.scale_line = found.scale_line or (found.node if above is None else above).line


def _largest(node: Node) -> Node | None:
    """The parent that the scores come from: the largest one; none where several are alike."""
    parents = [(math.prod(p.shape), p.op is not LEAF, i) for i, (_, p) in enumerate(node.inputs) if p is not None]
    parents.sort(reverse=True)
    alike = len(parents) > 1 and parents[0][:2] == parents[1][:2]
    return None if not parents or alike else node.inputs[parents[0][2]][1]


def _contracted(node: Node) -> int | None:
    """The length that a product of queries and keys sums over; None for another operation.  Each side has an axis of
    its own (a product with one vector scores pairs that were made before), and both or none of them is a parameter."""
    saved = node.saved
    if node.op is matmul.op:
        x, y = (tuple(saved[f"{name}_shape"] if f"{name}_shape" in saved else saved[name].shape) for name in "xy")
        length, apart = x[-1], len(x) > 1 and len(y) > 1 and y[-1] > 1
    elif node.op is einsum.op and len(saved["operands"]) == 2:
        (left, right), out = _letters(node)
        own = [set(one) & set(out) - set(other) for one, other in ((left, right), (right, left))]
        sizes = dict(zip(left, saved["operands"][0].shape))
        length, apart = math.prod(sizes[letter] for letter in set(left) & set(right) - set(out)), all(own)
    else:
        return None
    leaves = sum(parent is not None and parent.op is LEAF for _, parent in node.inputs)
    return int(length) if apart and leaves != 1 else None


def _of_operands(found: FoundAttention, product: Node) -> float:
    """The constant factors on queries and keys themselves."""
    whole = 1.0
    for _, operand in product.inputs:
        way = list(multiples(operand)) if operand is not None else []
        for (below, before), (_, factor) in zip(way, way[1:]):
            if factor != before:
                found.scale_line = below.line
        whole *= way[-1][1] if way else 1.0
    return whole


def _well_scored(e: Evidence, product: Node | None, scale: float, weights: np.ndarray) -> np.ndarray:
    """Entries that softmax alone would not make 0: too near the best visible score of their row."""
    scores = None if product is None else e.values.get(product)
    if scores is None and product is not None and product.op is matmul.op and {"x", "y"} <= set(product.saved):
        scores = to_host(product.saved["x"]) @ to_host(product.saved["y"])
    if scores is None:
        return np.zeros(weights.shape, bool)
    own = scale * scores.astype(np.float64).reshape(weights.shape)
    best = np.where(weights > 0, own, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    return own > best + 0.75 * math.log(float(np.finfo(weights.dtype).smallest_subnormal))


def _narrowed(mask: np.ndarray) -> np.ndarray:
    """The mask with length 1 where all along an axis is alike, as the user may have written it."""
    for axis in range(mask.ndim):
        first = mask.take([0], axis)
        mask = first if (mask == first).all() else mask
    return mask
