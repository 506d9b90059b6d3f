"""One tile of attention on the CPU, fast: everything in place, transposed, and without a row maximum.

Tiles are transposed, keys down and queries across: (..., c, r).  Then both score products and both
key-side gradients are products that OpenBLAS does best (float32, d 64, one core: 88-98 Gflop/s
against 62-78 for ``q @ k.T``), and what belongs to a query is subtracted along contiguous rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .threads import scratch

Array = np.ndarray

# exp of anything within +-30 neither overflows nor vanishes, in sums of 1e20 terms too: no row maximum is needed.
SAFE_SCORE = 30.0
# Below every sum of exponentials that is not empty: those hold an exp(0) or are of safe scores.
SMALLEST = np.float32(1e-30)
# Up to this many scores a call's fixed cost outweighs its work.
TINY = 1 << 10
# Above this weight the textbook softmax rule loses the winning entry of its row.
SATURATED = 0.99


def scores(q: Array, k: Array, scale: float, bias: Array | None, s: Array | None) -> tuple[Array, bool]:
    """Scaled and biased scores (..., c, r), not yet masked, and whether exp may be taken of them as they are."""
    s = np.matmul(k, (q * scale).swapaxes(-1, -2), out=s)  # (..., c, r)
    if bias is not None:
        s += bias.swapaxes(-1, -2)  # (..., c, r)
    if s.size <= TINY and np.vdot(s, s) <= SAFE_SCORE**2:  # one call of 0.5 us where two take 2.5
        return s, True
    return s, bool(np.maximum.reduce(s, None) <= SAFE_SCORE and np.minimum.reduce(s, None) >= -SAFE_SCORE)


def conceal(s: Array, hide: Array | None) -> None:
    """Add `hide`, 0 or -inf (..., <= c, r), to the last keys of s; adding takes a fifth of a masked copy's time."""
    if hide is None:
        return
    seen_by_all = s.shape[-2] - hide.shape[-2]
    if seen_by_all:
        s = s[..., seen_by_all:, :]  # (..., < c, r)
    s += hide


@lru_cache(maxsize=32)
def ones(c: int, kind: str) -> Array:
    return np.ones((1, c), kind)


def column_sums(e: Array) -> Array:
    """The sum over keys (..., 1, r): as a product it takes a quarter to a half of the time of sum()."""
    if e.size <= TINY:
        return np.add.reduce(e, -2, keepdims=True)
    return np.matmul(ones(e.shape[-2], e.dtype.char), e)


def mix(
    e: Array,
    safe: bool,
    v: Array,
    hide: Array | None,
    blind: bool,
    multiplier: Array | None,
    out: Array | None,
    lse: Array | None,
    keep: bool,
) -> Array:
    """softmax(scores) v (..., r, d_v) from the scores e (..., c, r); e becomes the weights if `keep`, and lse is
    filled if given.  `blind` says that there may be rows that see nothing.
    """
    top = None
    conceal(e, hide)
    if not safe:
        top = np.maximum.reduce(e, -2, keepdims=True)  # (..., 1, r)
        # A row of -inf only would give inf - inf; the lowest finite number instead gives exp(-inf) = 0.
        e -= np.maximum(top, np.finfo(e.dtype).min)  # (..., c, r)
    np.exp(e, out=e)  # (..., c, r)
    total = column_sums(e)  # (..., 1, r)
    if lse is not None:
        with np.errstate(divide="ignore"):
            np.log(total[..., 0, :], out=lse)  # (..., r)  -inf where the row sees nothing
        if top is not None:
            lse += top[..., 0, :]  # (..., r)
    if blind or not safe:
        total = np.maximum(total, SMALLEST)  # (..., 1, r)  rows that see nothing: 0 / smallest = 0
    if keep:
        e /= total  # (..., c, r)
    mixed = e if multiplier is None else e * multiplier.swapaxes(-1, -2)  # (..., c, r)
    out = np.matmul(mixed.swapaxes(-1, -2), v, out=out)  # (..., r, d_v)
    if not keep:
        out /= total.swapaxes(-1, -2)  # (..., r, d_v)
    return out


def score_gradient(p: Array, dp: Array, lonely: int | None) -> Array:
    """dL/dscores (..., c, r), in place of dp, which holds dL/dweights - sum(p dL/dweights).

    `lonely` is the query that sees one key only (the first under a causal mask): its weight is 1
    whatever its score, so its gradient is 0; taken out, causal tiles seldom hold a saturated query.

    p dp - p sum(p dp) loses the winning entry of a saturated query: 1 - p rounds to 0.  Shifting a query's
    dp by a constant changes nothing in exact arithmetic: those queries are done again, shifted by their
    entry at the winner, so that the sum is the others' share alone and nothing cancels.
    """
    if lonely is None:
        saturated = np.maximum.reduce(p, None) > SATURATED  # one pass over the tile, 0.05 ns an entry
    else:
        saturated = np.maximum.reduce(p[..., lonely + 1 :], None, initial=0) > SATURATED
    if saturated:
        picked = np.nonzero(np.maximum.reduce(p, -2) > SATURATED)  # m queries, an index for each axis
        across = dp.swapaxes(-1, -2)  # (..., r, c)
        p_m, dp_m = p.swapaxes(-1, -2)[picked], across[picked]  # (m, c)
        dp_m -= np.take_along_axis(dp_m, p_m.argmax(-1)[:, None], -1)  # (m, c)
        dp_m *= p_m  # (m, c)
        dp_m -= p_m * np.add.reduce(dp_m, -1, keepdims=True)  # (m, c)
        dp *= p  # (..., c, r)
        across[picked] = dp_m
    else:
        dp *= p  # (..., c, r)
    if lonely is not None:
        dp[..., lonely] = 0
    return dp


def with_column(name: str, x: Array, factor: float, column: Any) -> Array:
    """[x * factor, column] (..., n, d + 1): the product itself then adds ``column``, which saves a pass over the tile."""
    wide = scratch(name, (*x.shape[:-1], x.shape[-1] + 1), x.dtype)  # (..., n, d + 1)
    np.multiply(x, factor, out=wide[..., :-1])  # (..., n, d)
    wide[..., -1] = column  # (..., n)
    return wide


def weights_again(q: Array, k_wide: Array, lse: Array, scale: float, hide: Array | None, bias: Array | None) -> Array:
    """The weights (..., c, r) once more, exp(score - lse); k_wide is [k, 1] (..., c, d_k + 1)."""
    shift = np.where(np.isneginf(lse), 0, -lse)  # (..., r)  rows that see nothing: exp(-inf - 0) = 0
    q_wide = with_column("q", q, scale, shift)  # (..., r, d_k + 1)
    p = scratch("weights", (*q_wide.shape[:-2], k_wide.shape[-2], q.shape[-2]), q.dtype)
    np.matmul(k_wide, q_wide.swapaxes(-1, -2), out=p)  # (..., c, r)
    if bias is not None:
        p += bias.swapaxes(-1, -2)  # (..., c, r)
    conceal(p, hide)
    return np.exp(p, out=p)  # (..., c, r)


def centred_weight_gradient(
    g: Array, v: Array, out: Array, factor: float, multiplier: Array | None, v_wide: Array | None, dp: Array | None
) -> Array:
    """factor * (dL/dweights - sum(p dL/dweights)), (..., c, r); v_wide, where it pays, is [v, 1] (..., c, d_v + 1)."""
    if v_wide is not None and multiplier is None:
        mean = np.einsum("...rd,...rd->...r", g, out)  # (..., r)  sum(p dp) = g . out
        g_wide = with_column("g", g, factor, -factor * mean)  # (..., r, d_v + 1)
        return np.matmul(v_wide, g_wide.swapaxes(-1, -2), out=dp)  # (..., c, r)
    g = g * factor  # (..., r, d_v)
    dp = np.matmul(v, g.swapaxes(-1, -2), out=dp)  # (..., c, r)
    if multiplier is not None:
        dp *= multiplier.swapaxes(-1, -2)  # (..., c, r)
    g *= out  # (..., r, d_v)
    dp -= np.add.reduce(g, -1)[..., None, :]  # (..., c, r)
    return dp
