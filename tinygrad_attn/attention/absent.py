"""What a query may not see counts as absent, also where it is NaN or inf.

In a product 0 * NaN is NaN: a weight of 0 does not hide a NaN, neither forward nor backward.  So there
are two products that know who may see whom, used when something is not finite (one look per call):

    seen_scores  q k^T over visible pairs   <->   seen_mix  weights v over visible pairs

Each is the other's rule: the gradient of a score mixes keys, the gradient of a weight is a score."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.arrays import Array, module_of
from ..autodiff.operation import op
from ..autodiff.ops.choice import where
from ..autodiff.ops.shape import swapaxes
from ..autodiff.tensor import Tensor


def all_finite(*tensors: Tensor) -> bool:
    """One look per call, on the CPU only: on a GPU it would wait for the device."""
    return all(
        module_of(t._data).__name__ != "numpy" or bool(module_of(t._data).isfinite(t._data).all()) for t in tensors
    )


def pairs(keep: Array, n_q: int, n_k: int) -> Array:
    """A mask with both of its last axes in full: (..., n_q, n_k)."""
    return module_of(keep).broadcast_to(keep, np.broadcast_shapes(keep.shape, (n_q, n_k)))


@op(
    vjps={
        "q": lambda g, k, seen: seen_mix(g, k, seen),
        "k": lambda g, q, seen: seen_mix(swapaxes(g, -1, -2), q, seen.swapaxes(-1, -2)),
    },
    broadcasts=True,
)
def seen_scores(q: Array, k: Array, seen: Array) -> Array:
    """q k^T where `seen` (..., n_q, n_k), 0 elsewhere: q (..., n_q, d), k (..., n_k, d).

    >>> seen_scores(np.ones((1, 1)), np.array([[2.0], [np.nan]]), np.array([[True, False]]))
    array([[2., 0.]])
    """
    with np.errstate(invalid="ignore"):
        return module_of(q).where(seen, q @ k.swapaxes(-1, -2), q.dtype.type(0))


@op(
    vjps={
        "weights": lambda g, v, seen: seen_scores(g, v, seen),
        "v": lambda g, weights, seen: seen_mix(swapaxes(weights, -1, -2), g, seen.swapaxes(-1, -2)),
    },
    broadcasts=True,
)
def seen_mix(weights: Array, v: Array, seen: Array) -> Array:
    """weights v over the pairs that are `seen`: weights (..., n_q, n_k), v (..., n_k, d) -> (..., n_q, d).

    Rows of v that are not finite leave the product and come back one by one, where they may be seen.

    >>> seen_mix(np.array([[1.0, 0.0]]), np.array([[2.0], [np.nan]]), np.array([[True, False]]))
    array([[2.]])
    """
    module = module_of(v)
    weights = module.where(seen, weights, weights.dtype.type(0))
    bad = ~module.isfinite(v).all(axis=-1)  #                               (..., n_k)
    out = weights @ module.where(bad[..., None], v.dtype.type(0), v)  #     (..., n_q, d)
    with np.errstate(invalid="ignore"):
        for j in np.flatnonzero(bad.reshape(-1, bad.shape[-1]).any(axis=0)):
            sees = seen[..., j : j + 1] & bad[..., None, j : j + 1]  #      (..., n_q, 1)
            out = out + module.where(sees, weights[..., j : j + 1] * v[..., j : j + 1, :], v.dtype.type(0))
    return out


def without_unseen(q: Tensor, k: Tensor, seen: Array) -> tuple[Any, Any]:
    """q and k where queries that see nothing, and keys that nobody sees, are 0 (for scores that project
    them by a learned matrix, whose gradient would sum over those rows too)."""
    return where(seen.any(axis=-1)[..., None], q, 0.0), where(seen.any(axis=-2)[..., None], k, 0.0)
