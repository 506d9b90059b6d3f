"""Attention by the textbook: in float64, and for the kernels in long double with its gradients."""

from __future__ import annotations

import numpy as np

import tinygrad_attn as ta


def leaf(x):
    return ta.Tensor(np.asarray(x, np.float64), requires_grad=True)


def textbook(q, k, v, keep=None, scale=None, bias=0.0):
    """float64 NumPy; rows without a key give 0."""
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    keep = np.broadcast_to(True if keep is None else keep, s.shape)
    e = np.where(keep, np.exp(s - s.max(-1, keepdims=True, initial=-1e9)), 0.0)
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1.0, total)
    return p @ v, p


def visible(shape, offset, mask):
    """Which pairs may attend, (..., n_q, n_k)."""
    seen = np.ones(shape, bool)
    if offset is not None:
        seen &= np.arange(shape[-1]) <= np.arange(shape[-2])[:, None] + offset
    return seen if mask is None else seen & mask


def sum_to(x, like):
    """Sum x over the axes along which `like` was broadcast."""
    x = x.sum(axis=tuple(range(x.ndim - like.ndim)))
    return x.sum(axis=tuple(i for i, n in enumerate(like.shape) if n == 1), keepdims=True).reshape(like.shape)


def written_out(g, q, k, v, *, scale, offset=None, mask=None, bias=None, dropout=None):
    """Value and gradients by the textbook, in one piece; long double keeps what cancels."""
    g, q, k, v = (x.astype(np.longdouble) for x in (g, q, k, v))
    s = np.einsum("...id,...jd->...ij", q, k) * scale
    if bias is not None:
        s = s + bias
    lead = np.broadcast_shapes(s.shape[:-2], v.shape[:-2])
    shape = lead + s.shape[-2:]
    shape = np.broadcast_shapes(shape, *([] if mask is None else [mask.shape]))
    seen = visible(shape, offset, mask)
    s = np.where(seen, s, -np.inf)
    e = np.exp(s - np.maximum(s.max(-1, keepdims=True, initial=-np.inf), -1e300))
    p = e / np.maximum(e.sum(-1, keepdims=True), 1)
    drop = 1 if dropout is None else dropout(tuple(slice(0, n) for n in lead), slice(0, shape[-2]), slice(0, shape[-1]))
    dp = np.einsum("...id,...jd->...ij", g, v) * drop
    if shape[-1]:
        dp = dp - np.take_along_axis(dp, p.argmax(-1)[..., None], -1)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    return {
        "out": np.einsum("...ij,...jd->...id", p * drop, v),
        "dq": sum_to(np.einsum("...ij,...jd->...id", ds, k) * scale, q),
        "dk": sum_to(np.einsum("...ij,...id->...jd", ds, q) * scale, k),
        "dv": sum_to(np.einsum("...ij,...id->...jd", p * drop, g), v),
        "dbias": None if bias is None else sum_to(ds, bias),
        "p": p,
        "dp": np.where(seen, np.einsum("...id,...jd->...ij", g, v) * drop, 0),
        "ds": ds,
    }


def assert_equal(ours, right, tolerance=1e-12):
    for name, mine in ours.items():
        if mine is not None:
            theirs = right[name]
            assert mine.shape == theirs.shape, name
            np.testing.assert_allclose(
                mine,
                theirs.astype(mine.dtype),
                rtol=0,
                atol=tolerance * (1 + np.abs(theirs).max(initial=0)),
                err_msg=name,
            )


def normal(rng, *shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)
