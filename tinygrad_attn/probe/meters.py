"""Saturation meters: how much of a gradient the softmax of each row can let through.

With w the winning key, r_j the weights of the others and e = sum r_j = 1 - p_w:

    entropy   H = -sum r_j log r_j - p_w log(1 - e)
    Jacobian  |diag(p) - p p^T|_F^2 = p_w^2 (e^2 + 2 sum r^2) + sum r_j^2 (1 - 2 r_j) + (sum r^2)^2

Every term is positive, so nothing cancels where p_w is nearly 1, and each is O(n).  (The textbook
forms, lse - sum p s and sum p^2 - 2 sum p^3 + (sum p^2)^2, lose all digits there.)"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..autodiff.arrays import module_of, to_host


class Rows(NamedTuple):
    """Four numbers per row, arrays (...): entropy over log(valid keys) and NaN where a row has fewer than two,
    the largest weight, the Frobenius norm of the softmax Jacobian, and how many keys the row may see."""

    entropy: Any
    largest: Any
    jacobian: Any
    valid: Any


def rows(weights: Any, keep: Any = None) -> Rows:
    """The meters of attention weights (..., n_q, n_k).  keep: booleans that broadcast to them, True = may be seen
    (None: every key; give it, or the entropy of masked rows is taken over too many keys).

    >>> found = rows(np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> found.entropy, found.jacobian
    (array([1., 0.]), array([0.5, 0. ]))
    """
    module = module_of(weights)
    p = weights.astype(module.float32) if weights.dtype == module.float16 else weights
    n, shape = p.shape[-1], p.shape[:-1]
    if p.size == 0:
        nothing = module.zeros(shape, p.dtype)
        return Rows(nothing * module.nan, nothing, nothing, nothing)
    valid = module.full(shape, n) if keep is None else module.broadcast_to(keep, p.shape).sum(axis=-1)
    flat = p.reshape(-1, n)
    block = max(1, _BLOCK // n) if module is np else max(1, flat.shape[0])
    parts = [_of_block(flat[i : i + block], module) for i in range(0, flat.shape[0], block)]
    entropy, largest, jacobian = (module.concatenate(part).reshape(shape) for part in zip(*parts))
    several = valid > 1
    share = entropy / module.log(module.where(several, valid, 2).astype(p.dtype))
    return Rows(module.where(several, share, module.nan), largest, jacobian, valid)


_BLOCK = 1 << 15  # entries: what one block of rows needs stays in the L2 cache


def _of_block(p: Any, module: Any) -> tuple[Any, Any, Any]:
    """Entropy in nats, largest weight and Jacobian norm of rows p (rows, n)."""
    every, winner = module.arange(p.shape[0]), p.argmax(axis=-1)
    top = p[every, winner]
    r = p.copy()
    r[every, winner] = 0.0
    others, square = r.sum(axis=-1), r * r
    squares, cubes = square.sum(axis=-1), module.einsum("ri,ri->r", square, r)
    # r <= 1/2: sum r^2 (1 - 2 r) does not cancel
    jacobian = module.sqrt(top * top * (others * others + 2 * squares) + (squares - 2 * cubes) + squares * squares)
    logs = module.log(module.where(r > 0, r, 1.0).astype(p.dtype, copy=False))
    entropy = -module.einsum("ri,ri->r", r, logs) - top * module.log1p(-others)  # others <= 1 - 1/n
    return entropy, top, jacobian


class Meter(NamedTuple):
    """One head's rows summed up, over those with at least two keys to choose from: mean entropy and largest weight,
    median Jacobian norm, share of dead rows (Jacobian norm below 1e-3, or NaN)."""

    entropy: float
    largest: float
    jacobian: float
    dead: float
    rows: int


DEAD_BELOW = 1e-3


def meter(found: Rows, dead_below: float = DEAD_BELOW) -> Meter:
    """The rows of one head as one line; NaN where no row has a choice."""
    entropy, largest, jacobian, valid = (to_host(a).ravel() for a in found)
    chosen = valid > 1
    if not chosen.any():
        return Meter(float("nan"), float("nan"), float("nan"), 0.0, 0)
    entropy, largest, jacobian = entropy[chosen], largest[chosen], jacobian[chosen]
    return Meter(
        float(entropy.mean()),
        float(largest.mean()),
        float(np.median(jacobian)),
        float((~(jacobian >= dead_below)).mean()),  # NaN passes nothing either
        int(chosen.sum()),
    )


def meters(weights: Any, keep: Any = None, dead_below: float = DEAD_BELOW) -> list[Meter]:
    """One Meter per head of weights (..., heads, n_q, n_k); a matrix (n_q, n_k) is one head.

    >>> even, sharp = meters(np.array([[[0.5, 0.5]], [[1.0, 0.0]]]))
    >>> even.entropy, even.dead, sharp.entropy, sharp.dead
    (1.0, 0.0, 0.0, 1.0)
    """
    weights = getattr(weights, "_data", weights)
    if weights.ndim < 2:
        raise ValueError(f"meters: expected weights (..., heads, n_q, n_k), got shape {tuple(weights.shape)}")
    found = rows(weights, keep)
    return [meter(found, dead_below)] if weights.ndim == 2 else by_head(found, dead_below)


def by_head(found: Rows, dead_below: float = DEAD_BELOW) -> list[Meter]:
    """The meters of rows (..., heads, n_q), one per head."""
    heads = range(found.valid.shape[-2])
    return [meter(Rows(*(part[..., head, :] for part in found)), dead_below) for head in heads]
