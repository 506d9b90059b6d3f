"""What a query may not see counts as absent, also where it is NaN or inf.

In a product, 0 * NaN is NaN: a weight of 0 does not hide a NaN, neither forward nor backward.  These
functions are used only when something is not finite (one look per call); they take the product pair by
pair, (n_q, n_k, d) at once, with hidden pairs replaced by 0 beforehand."""

from __future__ import annotations

from ..backend import Array, module_of
from ..ops.elementwise import where
from ..ops.mask import masked_fill
from ..ops.shape import expand_dims
from ..tensor import Tensor


def all_finite(*tensors: Tensor) -> bool:
    """One look per call, on the CPU only: on a GPU it would wait for the device."""
    return all(module_of(t._data).__name__ != "numpy" or bool(module_of(t._data).isfinite(t._data).all()) for t in tensors)


def seen_scores(q: Tensor, k: Tensor, keep: Array) -> Tensor:
    """q k^T over visible pairs, 0 elsewhere."""
    pairs = where(keep[..., None], expand_dims(k, -3), 0.0)  #            (..., n_q, n_k, d_k)
    return (expand_dims(q, -2) * pairs).sum(axis=-1)  #                   (..., n_q, n_k)


def seen_mix(weights: Tensor, v: Tensor, keep: Array) -> Tensor:
    """weights v over visible pairs; a row of weights that is NaN is NaN only where it may see."""
    weights = masked_fill(weights, ~keep, 0.0)  #                         (..., n_q, n_k)
    pairs = where(keep[..., None], expand_dims(v, -3), 0.0)  #            (..., n_q, n_k, d_v)
    return (expand_dims(weights, -1) * pairs).sum(axis=-2)  #             (..., n_q, d_v)


def without_unseen(q: Tensor, k: Tensor, keep: Array) -> tuple[Tensor, Tensor]:
    """q and k where queries that see nothing, and keys that nobody sees, are 0 (for scores that project
    them by a learned matrix, whose gradient would sum over those rows too)."""
    module, n_q, n_k = module_of(keep), q.shape[-2], k.shape[-2]
    full = module.broadcast_to(keep, (*keep.shape[:-2], n_q, n_k))
    return where(full.any(axis=-1)[..., None], q, 0.0), where(full.any(axis=-2)[..., None], k, 0.0)
