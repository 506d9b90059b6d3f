"""What every attention function asks of its arguments, checked in one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph import Traced
from ..tensor import Tensor


def tensors(name: str, q: Any, k: Any, v: Any) -> tuple[Tensor, Tensor, Tensor]:
    """q (..., n_q, d_k), k (..., n_k, d_k), v (..., n_k, d_v) as tensors of fitting shapes."""
    like = next((x for x in (q, k, v) if isinstance(x, Traced)), None)
    device = like.device if isinstance(like, Tensor) else None
    q, k, v = (x if isinstance(x, Tensor) else Tensor(x, device=device) for x in (q, k, v))
    shapes = f"got q {q.shape}, k {k.shape}, v {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"{name}: expected q (..., n_q, d_k), k (..., n_k, d_k), v (..., n_k, d_v); {shapes}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{name}: expected q and k with the same last length d_k; {shapes}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{name}: expected k and v with the same number of keys n_k; {shapes}")
    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(f"{name}: expected batch and head axes that broadcast; {shapes}") from None
    return q, k, v


def scores_shape(q: Tensor, k: Tensor) -> tuple[int, ...]:
    """(..., n_q, n_k)"""
    return (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])


def scale_of(scale: float | None, d_k: int) -> float:
    """None means 1/sqrt(d_k); 0 is a scale like any other (uniform weights)."""
    return 1.0 / math.sqrt(max(d_k, 1)) if scale is None else float(scale)
