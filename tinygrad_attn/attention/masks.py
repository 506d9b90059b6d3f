"""Who may attend to whom: boolean arrays (..., n_q, n_k), True = query i may see key j."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Array, module_of
from ..operands import plain

Causal = bool | str


def causal_mask(n_q: int, n_k: int | None = None, align: str | None = None) -> np.ndarray:
    """True where key j is not after query i.  With n_q != n_k, `align` must say which corners meet:
    "top-left" (query 0 is key 0) or "bottom-right" (the last query is the last key: decoding with a cache).

    Errors: ValueError for n_q != n_k without align.

    >>> causal_mask(2).astype(int)
    array([[1, 0],
           [1, 1]])
    >>> causal_mask(1, 3, "bottom-right").astype(int)
    array([[1, 1, 1]])
    """
    n_k = n_q if n_k is None else n_k
    offset = causal_offset(True if align is None else align, n_q, n_k)
    return np.arange(n_k) <= np.arange(n_q)[:, None] + (offset or 0)


def causal_offset(causal: Causal, n_q: int, n_k: int) -> int | None:
    """o such that query i sees keys j <= i + o; None when not causal."""
    if causal is False or causal is None:
        return None
    if causal is True:
        if n_q != n_k:
            raise ValueError(
                f"causal=True needs as many queries as keys, got n_q = {n_q} and n_k = {n_k}; say which corner the "
                f'triangle starts from: causal="bottom-right" (decoding with a cache) or causal="top-left"'
            )
        return 0
    if causal == "top-left":
        return 0
    if causal == "bottom-right":
        return n_k - n_q
    raise ValueError(f'causal: expected True, False, "top-left" or "bottom-right", got {causal!r}')


def checked(mask: Any, scores_shape: tuple[int, ...], like: Array) -> Array | None:
    """The mask as a boolean array on `like`'s device that broadcasts to the scores (..., n_q, n_k).

    Errors: TypeError for a float mask (use bias=), ValueError for another shape or integers besides 0 and 1."""
    if mask is None:
        return None
    mask = plain(mask)
    module = module_of(like)
    mask = module.asarray(mask) if not hasattr(mask, "dtype") else mask
    if type(mask) is not type(like):
        mask = module.asarray(mask)
    if mask.dtype.kind == "f":
        raise TypeError(
            "a mask is boolean, True = may attend, got floats; to add numbers to the scores write bias=, "
            "and for a 0/1 mask write mask != 0"
        )
    if mask.dtype.kind != "b":
        if module is np and mask.size and (mask.min() < 0 or mask.max() > 1):
            raise ValueError("a mask of integers holds only 0 and 1 (1 = may attend); got other numbers")
        mask = mask.astype(bool)
    try:
        fits = np.broadcast_shapes(mask.shape, scores_shape) == tuple(scores_shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"the mask must broadcast to the scores (..., n_q, n_k) = {tuple(scores_shape)}, got {tuple(mask.shape)}; "
            f"a mask of keys per batch entry is written mask[:, None, None, :]"
        )
    return mask


def visible(keep: Array | None, offset: int | None, scores_shape: tuple[int, ...], like: Array) -> Array | None:
    """A checked mask and a causal offset as one boolean array (..., n_q, n_k); None where all may be seen."""
    if offset is None:
        return keep
    n_q, n_k = scores_shape[-2:]
    module = module_of(like)
    triangle = module.arange(n_k) <= module.arange(n_q)[:, None] + offset
    return triangle if keep is None else keep & triangle

