"""What every attention function asks of its arguments, checked in one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autodiff.graph import Traced
from ..autodiff.ops.elementwise import astype
from ..autodiff.tensor import Tensor


def as_tensors(*values: Any) -> tuple[Tensor, ...]:
    """Each value as a Tensor of floats, on the device of the first that is one already.  An array takes that one's
    dtype, for nothing widens; integers become float32."""
    if all(isinstance(x, Tensor) and x._data.dtype.kind == "f" for x in values):
        return values
    like = next((x for x in values if isinstance(x, Traced)), None)
    device = like.device if isinstance(like, Tensor) else None
    dtype = like.dtype if isinstance(like, Tensor) and like.dtype.kind == "f" else None
    given = (x if isinstance(x, Tensor) else Tensor(x, dtype=dtype, device=device) for x in values)
    return tuple(x if x.dtype.kind == "f" else astype(x, "float32") for x in given)


def scores_shape(name: str, q: Tensor, k: Tensor, v: Tensor, same_width: bool) -> tuple[int, ...]:
    """(..., n_q, n_k), if the shapes fit: each key has a value, and the axes in front broadcast."""
    lead, expected = q.shape[:-2], ""
    if min(q.ndim, k.ndim, v.ndim) < 2:
        expected = "q (..., n_q, d_k), k (..., n_k, d_k), v (..., n_k, d_v)"
    elif k.shape[-2] != v.shape[-2]:
        expected = "k and v with the same number of keys n_k"
    elif same_width and q.shape[-1] != k.shape[-1]:
        expected = "q and k with the same last length d_k"
    elif not lead == k.shape[:-2] == v.shape[:-2]:  # (asking NumPy costs 2 us of an 8 x 8 attention's 50)
        try:
            np.broadcast_shapes(lead, k.shape[:-2], v.shape[:-2])
            lead = np.broadcast_shapes(lead, k.shape[:-2])
        except ValueError:
            expected = "batch and head axes that broadcast"
    if expected:
        raise ValueError(f"{name}: expected {expected}; got q {q.shape}, k {k.shape}, v {v.shape}")
    return (*lead, q.shape[-2], k.shape[-2])


def scale_of(scale: float | None, d_k: int) -> float:
    """None means 1/sqrt(d_k); 0 is a scale like any other (uniform weights).

    Errors: TypeError for what is no number, and for a Tensor that requires a gradient."""
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise TypeError("scale is a number and gets no gradient; for a learned one write q * scale and scale=1.0")
    if isinstance(scale, str):
        raise TypeError(f"scale: expected a number, or None for 1/sqrt(d_k), got {scale!r}")
    return 1.0 / math.sqrt(max(d_k, 1)) if scale is None else float(scale)


def bias_of(bias: Any, scores_shape: tuple[int, ...]) -> Any:
    """The bias, if it broadcasts to the scores (..., n_q, n_k).

    Errors: TypeError for booleans (they are a mask), ValueError for another shape."""
    if bias is None:
        return None
    bias = bias if hasattr(bias, "dtype") else np.asarray(bias)
    if bias.dtype.kind == "b":
        raise TypeError("bias holds numbers that are added to the scores, got booleans; write mask= for who may attend")
    if not broadcasts_to(bias.shape, scores_shape):
        raise ValueError(f"bias must broadcast to the scores (..., n_q, n_k) = {scores_shape}, got {tuple(bias.shape)}")
    return bias


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Does `shape` broadcast to exactly `target`?

    >>> broadcasts_to((1, 3), (2, 3)), broadcasts_to((2, 3), (3,))
    (True, False)
    """
    try:
        return np.broadcast_shapes(shape, target) == tuple(target)
    except ValueError:
        return False


def float32(x: Tensor) -> Tensor:
    """float16 as float32: dot products of float16 overflow at 65504."""
    return astype(x, "float32") if x.dtype == "float16" else x
