"""One tile of attention in ordinary array operations: exact, for any array module, and proof against NaN.

This is the readable form of the kernels.  It runs whole on GPU arrays, and tile by tile on the CPU
where NaN or inf stands behind a mask.  Shapes: r query rows, c keys.  ``seen`` is boolean
(..., r, c), True = may attend, or None where every pair may.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any


class Softmax(NamedTuple):
    """The softmax of a tile, with what its exact statistics need."""

    p: Array  # (..., r, c)  weights; rows that see nothing are 0
    shifted: Array  # (..., r, c)  score minus the largest score of its row
    e: Array  # (..., r, c)  exp(shifted)
    top: Array  # (..., r, 1)  the largest score, -inf where the row sees nothing
    total: Array  # (..., r, 1)  sum of e: at least 1, or 0 where the row sees nothing


def scores(xp: Any, q: Array, k: Array, scale: float, seen: Array, bias: Array) -> Array:
    s = xp.matmul(q * scale, k.swapaxes(-1, -2))  # (..., r, c)  scaled first: float16 inputs must not overflow
    if bias is not None:
        s = s + bias  # (..., r, c)
    if seen is not None:
        s = xp.where(seen, s, s.dtype.type(-xp.inf))  # (..., r, c)  replaced, not added: NaN does not survive
    return s


def softmax(xp: Any, s: Array) -> Softmax:
    top = s.max(axis=-1, keepdims=True)  # (..., r, 1)
    # A row of -inf only would give inf - inf; the lowest finite number instead gives exp(-inf) = 0.
    shifted = s - xp.maximum(top, xp.finfo(s.dtype).min)  # (..., r, c)
    e = xp.exp(shifted)  # (..., r, c)
    total = e.sum(axis=-1, keepdims=True)  # (..., r, 1)
    p = e / xp.maximum(total, 1)  # (..., r, c)  total >= exp(0) = 1 wherever the row sees a key
    return Softmax(p, shifted, e, top, total)


def log_sum_exp(xp: Any, soft: Softmax) -> Array:
    return (soft.top + xp.log(xp.maximum(soft.total, 1)))[..., 0]  # (..., r)


def mix(xp: Any, a: Array, b: Array, seen: Array, careful: bool) -> Array:
    """``a @ b`` (..., r, c) @ (..., c, d) in which unseen pairs count as absent even where b is NaN or inf.

    0 * NaN is NaN, so a zero weight does not hide a bad row of b.  Bad rows leave the product and come
    back one at a time, only for the queries that may see them.
    """
    if not careful:
        return xp.matmul(a, b)  # (..., r, d)
    bad = ~xp.isfinite(b).all(axis=-1)  # (..., c)
    result = xp.matmul(a, xp.where(bad[..., None], 0, b))  # (..., r, d)
    for j in xp.nonzero(bad.reshape(-1, bad.shape[-1]).any(axis=0))[0].tolist():
        sees = seen[..., :, j : j + 1] & bad[..., None, j : j + 1]  # (..., r, 1)
        if sees.any():
            result += xp.where(sees, a[..., :, j : j + 1] * b[..., j : j + 1, :], 0)  # (..., r, d)
    return result


def winner(xp: Any, p: Array, x: Array) -> Array:
    """x at the largest weight of each row: (..., r, 1)."""
    best = p.argmax(axis=-1)[..., None]  # (..., r, 1)
    return xp.take_along_axis(x, best, axis=-1)


def softmax_gradient(xp: Any, p: Array, dp: Array) -> Array:
    """dL/dscores from dL/dweights.

    p (dp - sum p dp) loses the winning entry of a saturated row: 1 - p rounds to 0.  Shifting a row
    of dp by a constant changes nothing in exact arithmetic, so shift by its entry at the winner: what
    is left of the sum is the others' share alone, and nothing cancels.
    """
    dp = dp - winner(xp, p, dp)  # (..., r, c)
    share = p * dp  # (..., r, c)
    return share - p * share.sum(axis=-1, keepdims=True)  # (..., r, c)


def forward(
    xp: Any, q: Array, k: Array, v: Array, scale: float, seen: Array, bias: Array, multiplier: Array, careful: bool
) -> tuple[Array, Array]:
    """out (..., r, d_v) and the row log-sum-exp (..., r)."""
    soft = softmax(xp, scores(xp, q, k, scale, seen, bias))
    p = soft.p if multiplier is None else soft.p * multiplier  # (..., r, c)
    return mix(xp, p, v, seen, careful), log_sum_exp(xp, soft)


def weight_gradient(xp: Any, g: Array, v: Array, seen: Array, multiplier: Array) -> Array:
    dp = xp.matmul(g, v.swapaxes(-1, -2))  # (..., r, c)
    if multiplier is not None:
        dp = dp * multiplier  # (..., r, c)
    return dp if seen is None else xp.where(seen, dp, dp.dtype.type(0))  # (..., r, c)


def backward(
    xp: Any,
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    seen: Array,
    bias: Array,
    multiplier: Array,
    careful: bool,
) -> tuple[Array, Array, Array, Array]:
    """dq, dk, dv of the tile and ds (..., r, c), the gradient at the scaled scores; all recomputed from the inputs."""
    p = softmax(xp, scores(xp, q, k, scale, seen, bias)).p  # (..., r, c)
    ds = softmax_gradient(xp, p, weight_gradient(xp, g, v, seen, multiplier))  # (..., r, c)
    across = None
    if seen is not None:
        ds = xp.where(seen, ds, ds.dtype.type(0))  # (..., r, c)  a NaN of the row stays off unseen keys
        across = seen.swapaxes(-1, -2)  # (..., c, r)
    dropped = p if multiplier is None else p * multiplier  # (..., r, c)
    dv = mix(xp, dropped.swapaxes(-1, -2), g, across, careful)  # (..., c, d_v)
    dq = mix(xp, ds, k, seen, careful) * scale  # (..., r, d_k)
    dk = mix(xp, ds.swapaxes(-1, -2), q, across, careful) * scale  # (..., c, d_k)
    return dq, dk, dv, ds
