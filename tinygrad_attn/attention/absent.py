"""What a query may not see counts as absent, also where it is NaN or inf.

In a product 0 * NaN is NaN: a weight of 0 does not hide a NaN, neither forward nor backward.  So there
are two products that know who may see whom, used when something is not finite (one look per call):

    visible_scores  q k^T over visible pairs   <->   visible_mix  weights v over visible pairs

Each is the other's rule: the gradient of a score mixes keys, the gradient of a weight is a score."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.arrays import Array, module_of
from ..autodiff.operation import op
from ..autodiff.ops.choice import where
from ..autodiff.ops.shape import swapaxes
from ..autodiff.tensor import Tensor


def nan_guard(visible: Array | None, q: Tensor, k: Tensor, v: Tensor) -> Array | None:
    """`visible` in full, (..., n_q, n_k), where it may hide a NaN or inf; None where ordinary products will do.
    One look per call, on the CPU only: on a GPU it would wait for the device."""
    finite = all(not isinstance(x._data, np.ndarray) or bool(np.isfinite(x._data).all()) for x in (q, k, v))
    if visible is None or finite:
        return None
    return np.broadcast_to(visible, np.broadcast_shapes(visible.shape, (q.shape[-2], k.shape[-2])))


@op(
    vjps={
        "q": lambda g, k, visible: visible_mix(g, k, visible),
        "k": lambda g, q, visible: visible_mix(swapaxes(g, -1, -2), q, visible.swapaxes(-1, -2)),
    },
    broadcasts=True,
)
def visible_scores(q: Array, k: Array, visible: Array) -> Array:
    """q k^T where `visible` (..., n_q, n_k), 0 elsewhere: q (..., n_q, d), k (..., n_k, d).

    >>> visible_scores(np.ones((1, 1)), np.array([[2.0], [np.nan]]), np.array([[True, False]]))
    array([[2., 0.]])
    """
    with np.errstate(invalid="ignore"):
        return module_of(q).where(visible, q @ k.swapaxes(-1, -2), q.dtype.type(0))


@op(
    vjps={
        "weights": lambda g, v, visible: visible_scores(g, v, visible),
        "v": lambda g, weights, visible: visible_mix(swapaxes(weights, -1, -2), g, visible.swapaxes(-1, -2)),
    },
    broadcasts=True,
)
def visible_mix(weights: Array, v: Array, visible: Array) -> Array:
    """weights v over the pairs that are `visible`: weights (..., n_q, n_k), v (..., n_k, d) -> (..., n_q, d).

    Rows of v that are not finite leave the product and come back one by one, where they are visible.

    >>> visible_mix(np.array([[1.0, 0.0]]), np.array([[2.0], [np.nan]]), np.array([[True, False]]))
    array([[2.]])
    """
    module, zero = module_of(v), v.dtype.type(0)
    weights = module.where(visible, weights, zero)
    bad = ~module.isfinite(v).all(axis=-1)  #                               (..., n_k)
    out = weights @ module.where(bad[..., None], zero, v)  #                (..., n_q, d)
    with np.errstate(invalid="ignore"):
        for j in module.nonzero(bad.reshape(-1, bad.shape[-1]).any(axis=0))[0].tolist():
            sees = visible[..., j : j + 1] & bad[..., None, j : j + 1]  #   (..., n_q, 1)
            out = out + module.where(sees, weights[..., j : j + 1] * v[..., j : j + 1, :], zero)
    return out


def without_unseen(q: Tensor, k: Tensor, visible: Array) -> tuple[Any, Any]:
    """q and k where queries that see nothing, and keys that nobody sees, are 0 (for scores that project
    them by a learned matrix, whose gradient would sum over those rows too)."""
    return where(visible.any(axis=-1)[..., None], q, 0.0), where(visible.any(axis=-2)[..., None], k, 0.0)
