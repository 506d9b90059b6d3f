"""Saturation meters: how much of a gradient the softmax of each row can let through.

With w the winning key, r_j the weights of the others and e = sum r_j = 1 - p_w:

    entropy   H = -sum r_j log r_j - p_w log(1 - e)
    Jacobian  |diag(p) - p p^T|_F^2 = p_w^2 (e^2 + 2 sum r^2) + sum r_j^2 (1 - 2 r_j) + (sum r^2)^2

Every term is positive, so nothing cancels where p_w is nearly 1, and each is O(n).  (The textbook
forms, lse - sum p s and sum p^2 - 2 sum p^3 + (sum p^2)^2, lose all digits there.)"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backend import module_of, to_host


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
    n = p.shape[-1]
    shape = p.shape[:-1]
    if n == 0:
        nothing = module.zeros(shape, p.dtype)
        return Rows(nothing * module.nan, nothing, nothing, nothing)
    valid = module.full(shape, n) if keep is None else module.broadcast_to(keep, p.shape).sum(axis=-1)
    winner = p.argmax(axis=-1)[..., None]
    top = module.take_along_axis(p, winner, axis=-1)[..., 0]
    r = p.copy()
    module.put_along_axis(r, winner, 0.0, axis=-1)
    others = r.sum(axis=-1)
    square = r * r
    squares = square.sum(axis=-1)
    of_others = (square * (1 - 2 * r)).sum(axis=-1) + squares * squares
    jacobian = module.sqrt(top * top * (others * others + 2 * squares) + of_others)
    logs = module.log(module.where(r > 0, r, 1.0).astype(p.dtype))  #  others <= 1 - 1/n: log1p below is finite
    entropy = -(r * logs).sum(axis=-1) - top * module.log1p(-others)
    several = valid > 1
    share = module.where(several, entropy / module.log(module.where(several, valid, 2).astype(p.dtype)), module.nan)
    return Rows(share, top, jacobian, valid)


class Meter(NamedTuple):
    """One head's rows summed up, over those with at least two keys to choose from: mean entropy and largest weight,
    median Jacobian norm, share of dead rows (Jacobian norm below 1e-3)."""

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
        float((jacobian < dead_below).mean()),
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
    if weights.ndim == 2:
        return [meter(found, dead_below)]
    return [meter(Rows(*(part[..., head, :] for part in found)), dead_below) for head in range(weights.shape[-3])]
