"""Who may attend to whom: boolean arrays (..., n_q, n_k), True = query i may see key j.

A mask is a plain array, so masks compose by themselves: ``a & b`` asks both, ``a | b`` either, ``~a``
neither.  ``picture`` draws one, ``check_mask`` (mask_check.py) says what looks wrong."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..autodiff.arrays import Array, is_array, module_of, to_host
from ..autodiff.dtypes import plain
from .checks import broadcasts_to

Causal = bool | Literal["top-left", "bottom-right"]


def causal_mask(n_q: int, n_k: int | None = None, align: str | None = None) -> np.ndarray:
    """True where key j is not after query i.  With n_q != n_k, `align` must say which corners meet:
    "top-left" (query 0 is key 0) or "bottom-right" (the last query is the last key: decoding with a cache).

    Errors: ValueError for n_q != n_k without align, or another word for it.

    >>> causal_mask(2).astype(int)
    array([[1, 0],
           [1, 1]])
    >>> causal_mask(1, 3, "bottom-right").astype(int)
    array([[1, 1, 1]])
    """
    n_k = n_q if n_k is None else n_k
    if align not in (None, "top-left", "bottom-right") or (align is None and n_q != n_k):
        raise ValueError(
            f'causal_mask: for n_q = {n_q} and n_k = {n_k} expected align="bottom-right" (decoding with a cache) or '
            f'align="top-left", got {align!r}'
        )
    return np.arange(n_k) <= np.arange(n_q)[:, None] + (n_k - n_q if align == "bottom-right" else 0)


def padding_mask(lengths: Any, n_k: int | None = None) -> np.ndarray:
    """True for the first `lengths` keys of each sequence: integers (...) -> booleans (..., 1, n_k).

    n_k: the padded length (default: the longest).  The 1 is the query axis: the same keys are hidden from
    every query.  Where q has a head axis, (B, n_heads, n, d), write ``padding_mask(lengths[:, None], n_k)``;
    MultiHeadAttention adds that axis itself.

    Errors: TypeError for lengths that are not integers, ValueError for one outside [0, n_k].

    >>> padding_mask([1, 3]).astype(int)
    array([[[1, 0, 0]],
    <BLANKLINE>
           [[1, 1, 1]]])
    """
    lengths = on_host(lengths)
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"padding_mask: expected integer lengths, got dtype {lengths.dtype}")
    n_k = int(lengths.max(initial=0)) if n_k is None else n_k
    if lengths.size and (lengths.min() < 0 or lengths.max() > n_k):
        raise ValueError(
            f"padding_mask: expected lengths between 0 and n_k = {n_k}, got {lengths.min()} to {lengths.max()}"
        )
    return (np.arange(n_k) < lengths[..., None])[..., None, :]


def causal_offset(causal: Causal, n_q: int, n_k: int) -> int | None:
    """o such that query i sees keys j <= i + o; None when not causal."""
    if causal is False or causal is None:
        return None
    if causal is True and n_q != n_k:
        raise ValueError(
            f"causal=True needs as many queries as keys, got n_q = {n_q} and n_k = {n_k}; say which corner the "
            f'triangle starts from: causal="bottom-right" (decoding with a cache) or causal="top-left"'
        )
    if causal is True or causal == "top-left":
        return 0
    if causal == "bottom-right":
        return n_k - n_q
    raise ValueError(f'causal: expected True, False, "top-left" or "bottom-right", got {causal!r}')


def mask_of(mask: Any, scores_shape: tuple[int, ...], like: Array) -> Array | None:
    """The mask as a boolean array on `like`'s device that broadcasts to the scores (..., n_q, n_k).

    Errors: TypeError for a float mask (use bias=), ValueError for another shape or integers besides 0 and 1."""
    if mask is None:
        return None
    module, mask = module_of(like), plain(mask)
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
    if not broadcasts_to(mask.shape, scores_shape):
        between = "None, " * (len(scores_shape) - 2)
        hint = f"; a mask of keys per batch entry is written mask[:, {between}:]" if between else ""
        raise ValueError(
            f"the mask must broadcast to the scores (..., n_q, n_k) = {scores_shape}, got {tuple(mask.shape)}{hint}"
        )
    return mask


def visible(mask: Array | None, offset: int | None, rows: slice, n_k: int, module: Any) -> Array | None:
    """A mask of the queries `rows` and the first n_k keys, and the causal triangle, as one boolean array; None: all."""
    if offset is None:
        return mask
    triangle = module.arange(n_k) <= module.arange(rows.start, rows.stop)[:, None] + offset  # (r, n_k)
    return triangle if mask is None else mask & triangle


def on_host(x: Any) -> np.ndarray:
    """A list, an array of any device or a Tensor as a NumPy array."""
    x = plain(x)
    return to_host(x) if is_array(x) else np.asarray(x)


def picture(mask: Any, most: int = 64) -> str:
    """The mask as text: a row per query, a column per key, ``█`` = may attend, ``·`` = hidden.

    Axes in front of (n_q, n_k) are drawn one below the other, the first eight.  A mask longer than `most` is drawn in
    tiles, shaded ``· ░ ▒ ▓ █`` by the share of pairs that may attend.

    >>> print(picture(causal_mask(3)))
    3 queries (down) x 3 keys (across)
    0 █··
    1 ██·
    2 ███
    """
    mask = np.atleast_2d(on_host(mask)) != 0
    lead, (n_q, n_k) = mask.shape[:-2], mask.shape[-2:]
    lines = [f"{n_q} queries (down) x {n_k} keys (across)"]
    for index in list(np.ndindex(*lead))[:8]:
        lines += [f"mask[{', '.join(map(str, index))}]"] if lead else []
        lines += _drawn(mask[index], most)
    hidden = math.prod(lead) - 8
    return "\n".join([*lines, f"... and {hidden} more"] if hidden > 0 else lines)


def _drawn(mask: np.ndarray, most: int) -> list[str]:
    n_q, n_k = mask.shape
    tile = max(1, math.ceil(max(n_q, n_k) / most))
    rows, columns = np.arange(0, n_q, tile), np.arange(0, n_k, tile)
    sums = np.zeros((len(rows), len(columns)))
    if mask.size:
        sums = np.add.reduceat(np.add.reduceat(mask.astype(float), rows, 0), columns, 1)
    sizes = np.minimum(tile, n_q - rows)[:, None] * np.minimum(tile, n_k - columns)
    shades = np.ceil(3 * sums / sizes).astype(int) + (sums == sizes)  # 0 none, 1 to 3 some, 4 all
    width = len(str(n_q - 1))
    return [f"{i:>{width}} " + "".join("·░▒▓█"[s] for s in row) for i, row in zip(rows, shades)]
