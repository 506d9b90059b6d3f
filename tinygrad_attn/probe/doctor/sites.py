"""Site: one attention in a graph, explicit, hand-made or fused, with its weights, scale, mask and lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...autodiff.arrays import to_host
from ...autodiff.graph import Node
from ...autodiff.ops.matmul import _parsed
from ...autodiff.ops.softmax import softmax
from ..local import kept_by_name
from .evidence import Case
from .finding import line_of

_PASSES = ("masked_fill", "where", "add", "sub", "mul", "div", "astype", "maximum", "minimum", "clip", "reshape")


@dataclass
class Site:
    """weights (..., n_q, n_k) and the gradient that reaches them (None: not seen, as in fused attention).
    scale: the factor on q k^T, None where it is learned or unknown.  d: the contracted length.  keep: the mask, True =
    may attend.  axis: what softmax runs over.  after: entries set to 0 after softmax although they had weight."""

    node: Node
    weights: np.ndarray
    gradient: np.ndarray | None
    scale: float | None
    d: int | None
    keep: np.ndarray | None
    axis: int
    scale_line: str
    mask_line: str
    after: tuple[int, str] | None = None
    visible: np.ndarray | None = None  # keep and causal together

    @property
    def line(self) -> str:
        return line_of(self.node)

    @property
    def heads(self) -> int:
        return self.weights.shape[-3] if self.weights.ndim >= 4 else 1

    def score_std(self) -> float:
        """The standard deviation of what went into softmax, within rows: log p differs from it by a constant per row."""
        p = np.moveaxis(self.weights, self.axis, -1).astype(np.float64)
        seen = p > 0
        count = seen.sum(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(seen, np.log(np.where(seen, p, 1.0)), 0.0)
            mean = logs.sum(axis=-1, keepdims=True) / np.maximum(count, 1)[..., None]
            squares = np.where(seen, (logs - mean) ** 2, 0.0).sum(axis=-1)
        rows = count > 1
        return float(np.sqrt(squares[rows].sum() / (count[rows] - 1).sum())) if rows.any() else float("nan")


def sites(case: Case) -> Iterator[Site]:
    """Every attention that the loss depends on, in forward order."""
    for node in reversed(case.order):
        if node.op.name == "fused_attention":
            yield _fused(case, node)
        elif node.op.name == "softmax" and node.residuals[0] is not None and _is_mixed(case, node):
            yield _explicit(case, node)


def _is_mixed(case: Case, node: Node) -> bool:
    """Is this softmax multiplied with values (weights @ v), possibly after dropout or a mask?"""
    for consumer, argument in case.consumers.get(node, ()):
        name = consumer.op.name
        if (name == "matmul" and argument == "x") or name == "einsum":
            return True
        if name in ("mul", "masked_fill", "astype", "where", "div") and _is_mixed(case, consumer):
            return True
    return False


def _explicit(case: Case, node: Node) -> Site:
    kept = kept_by_name(node)
    weights = to_host(kept["out"])
    site = Site(node, weights, _host(case.gradients.get(node)), 1.0, None, None, -1, line_of(node), line_of(node))
    axis = int(kept["axis"])
    site.axis = axis if axis < 0 else axis - weights.ndim
    above = (node.parents or (None,))[0]
    while above is not None and above.op.name in _PASSES:
        _read_step(site, above)
        flowing = [parent for parent in above.parents or () if parent is not None]
        if len(flowing) > 1:  # a learned bias or temperature: follow the larger one, forget the scale if it multiplies
            site.scale = None if above.op.name in ("mul", "div") else site.scale
            flowing.sort(key=lambda parent: -int(np.prod(parent.shape)))
        above = flowing[0] if flowing else None
    site.d = None if above is None else _contracted(above)
    if above is None or site.d is None:
        site.scale = None
    elif site.scale_line == line_of(node) and site.scale == 1.0:
        site.scale_line = line_of(above)
    site.visible = site.keep
    site.after = _masked_after(case, node, weights)
    return site


def _contracted(node: Node) -> int | None:
    """The length that a product of queries and keys sums over; None for another operation."""
    got, name = kept_by_name(node), node.op.name
    if name == "matmul":
        shape = got.get("x_shape", getattr(got.get("x"), "shape", ()))
        return int(shape[-1]) if shape else None
    if name == "einsum" and len(got["operands"]) == 2:
        (left, right), out = _parsed(got["subscripts"], [x.ndim for x in got["operands"]])
        lengths = dict(zip(left, got["operands"][0].shape))
        return int(np.prod([lengths[c] for c in left if c in right and c not in out]))
    return None


def _read_step(site: Site, node: Node) -> None:
    """What one operation between scores and softmax does: scale or mask."""
    kept, name = kept_by_name(node), node.op.name
    if name == "masked_fill":
        mask = np.asarray(to_host(kept["mask"])).astype(bool)
        if not (site.weights[np.broadcast_to(mask, site.weights.shape)] > 0).any():  # what was filled in left no weight
            _add_mask(site, ~mask, node)
    elif name == "where" and "condition" in kept:
        condition = np.asarray(to_host(kept["condition"])).astype(bool)
        for keep in (condition, ~condition):
            if not (site.weights[~np.broadcast_to(keep, site.weights.shape)] > 0).any() and not keep.all():
                _add_mask(site, keep, node)
                break
    elif name in ("mul", "div") and site.scale is not None:
        other = kept.get("y", kept.get("x"))
        if other is not None and np.size(other) == 1 and None in (node.parents or ()):
            factor = float(np.asarray(to_host(other) if hasattr(other, "dtype") else other).reshape(-1)[0])
            site.scale *= factor if name == "mul" else 1.0 / factor if factor else 1.0
            site.scale_line = line_of(node)


def _add_mask(site: Site, keep: np.ndarray, node: Node) -> None:
    site.keep = keep if site.keep is None else site.keep & keep
    site.mask_line = line_of(node)


def _masked_after(case: Case, node: Node, weights: np.ndarray) -> tuple[int, str] | None:
    """Weights that a mask set to 0 after softmax: (how many, line)."""
    for consumer, _ in case.consumers.get(node, ()):
        kept, name = kept_by_name(consumer), consumer.op.name
        hidden = None
        if name == "masked_fill":
            hidden = np.asarray(to_host(kept["mask"])).astype(bool)
        elif name == "mul" and None in (consumer.parents or ()):
            other = np.asarray(to_host(kept.get("y", kept.get("x"))))
            hidden = other == 0 if other.ndim and np.isin(other, (0, 1)).all() else None
        if hidden is not None and np.ndim(hidden):
            count = int((np.where(hidden, weights, 0.0) > 0).sum())
            if count:
                return count, line_of(consumer)
    return None


def _fused(case: Case, node: Node) -> Site:
    """The weights of a fused node, made again from what it kept."""
    kept = node.residuals[0]
    q, k = (to_host(kept[name]).astype(np.float64) for name in ("q", "k"))
    call, bias = kept["call"], kept.get("bias")
    visible = call.visible(q.shape[-2], k.shape[-2], kept["q"])
    with np.errstate(all="ignore"):
        s = q @ np.swapaxes(k, -1, -2) * call.scale
        s = s if bias is None else s + to_host(getattr(bias, "_data", bias))
        visible = np.broadcast_to(True if visible is None else to_host(visible), s.shape)
        weights = softmax(np.where(visible, s, -np.inf), -1)
    line = line_of(node)
    given = None if call.mask is None else np.asarray(to_host(call.mask))
    site = Site(node, weights, None, call.scale, q.shape[-1], given, -1, line, line)
    site.visible = visible
    site.gradient = _host(case.gradients.get(node))
    return site


def _host(array: Any) -> np.ndarray | None:
    return None if array is None else to_host(array)
