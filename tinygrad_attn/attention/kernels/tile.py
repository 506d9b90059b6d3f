"""One tile of attention on the CPU, fast: everything in place, transposed, and without a row maximum.

Tiles are transposed, keys down and queries across: (..., c, r).  Then both score products and both
key-side gradients are products that OpenBLAS does best (float32, d 64, one core: 88-98 Gflop/s
against 62-78 for ``q @ k.T``), and what belongs to a query is subtracted along contiguous rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .operands import Tile
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


@lru_cache(maxsize=32)
def triangle(rows: int, columns: int, first: int, kind: str) -> Array:
    """0 where key `first + j` is visible to query i of a tile (key <= query), -inf above: (columns, rows)."""
    hidden = first + np.arange(columns)[:, None] > np.arange(rows)  # (c, r)
    made = np.where(hidden, -np.inf, 0).astype(kind)  # (c, r)
    made.flags.writeable = False
    return made


def add_mask(t: Tile, s: Array) -> None:
    """-inf for what a query may not see, added to s (..., c, r): a fifth of a masked copy's time."""
    if t.x.offset is not None:
        r, first = t.rows.stop - t.rows.start, t.rows.start + t.x.offset
        # So many keys are visible to every row of the tile; in a small call one addition over all is quicker.
        clear = 0 if t.index is None else min(max(first + 1, 0), t.c)
        if clear < t.c:
            below = s[..., clear:, :] if clear else s
            below += triangle(r, t.c - clear, clear - first, t.x.dtype.char)  # (c - clear, r)
    if t.x.mask is not None:
        mask = t.of_scores(t.x.mask).swapaxes(-1, -2)  # (..., c | 1, r | 1)
        s += np.where(mask, t.x.dtype.type(0), t.x.dtype.type(-np.inf))


def scores(t: Tile, s: Array | None = None) -> tuple[Array, bool]:
    """Scaled and biased scores (..., c, r), not yet masked, and whether exp may be taken of them as they are."""
    s = np.matmul(t.k, (t.q * t.x.scale).swapaxes(-1, -2), out=s)  # (..., c, r)
    if t.x.bias is not None:
        s += t.bias.swapaxes(-1, -2)  # (..., c, r)
    if s.size <= TINY and np.vdot(s, s) <= SAFE_SCORE**2:  # one call of 0.5 us where two take 2.5
        return s, True
    return s, bool(np.maximum.reduce(s, None) <= SAFE_SCORE and np.minimum.reduce(s, None) >= -SAFE_SCORE)


@lru_cache(maxsize=32)
def ones(c: int, kind: str) -> Array:
    return np.ones((1, c), kind)


def forward(t: Tile, e: Array | None = None, out: Array | None = None, lse: Array | None = None) -> tuple[Array, Array]:
    """out = softmax(scores) v (..., r, d_v), and e (..., c, r): the weights; where `lse` (..., r) is given it is
    filled instead, and e is scratch."""
    e, no_max_needed = scores(t, e)
    add_mask(t, e)
    top = None
    if not no_max_needed:
        top = np.maximum.reduce(e, -2, keepdims=True)  # (..., 1, r)
        # A row of -inf only would give inf - inf; the lowest finite number instead gives exp(-inf) = 0.
        e -= np.maximum(top, np.finfo(e.dtype).min)  # (..., c, r)
    np.exp(e, out=e)  # (..., c, r)
    # The sum over keys (..., 1, r): as a product it takes a quarter to a half of the time of sum().
    total = np.add.reduce(e, -2, keepdims=True) if e.size <= TINY else np.matmul(ones(t.c, e.dtype.char), e)
    if lse is not None:
        with np.errstate(divide="ignore"):
            np.log(total[..., 0, :], out=lse)  # (..., r)  -inf where the row sees nothing
        if top is not None:
            lse += top[..., 0, :]  # (..., r)
    if t.x.may_be_empty or not no_max_needed:
        total = np.maximum(total, SMALLEST)  # (..., 1, r)  rows that see nothing: 0 / smallest = 0
    if lse is None:
        e /= total  # (..., c, r)
    out = np.matmul(drop(t, e).swapaxes(-1, -2), t.v, out=out)  # (..., r, d_v)
    if lse is not None:
        out /= total.swapaxes(-1, -2)  # (..., r, d_v)
    return out, e


def drop(t: Tile, p: Array) -> Array:
    """The weights (..., c, r) after dropout."""
    return p if t.dropout is None else p * t.dropout.swapaxes(-1, -2)


def score_gradient(t: Tile, p: Array, dp: Array) -> Array:
    """dL/dscores (..., c, r), in place of dp, which holds dL/dweights - sum(p dL/dweights).

    The first row under a causal mask sees one key only: its gradient is 0; taken out, causal tiles seldom hold a
    saturated query.

    p dp - p sum(p dp) loses the winning entry of a saturated query: 1 - p rounds to 0.  Shifting a query's
    dp by a constant changes nothing in exact arithmetic: those queries are done again, shifted by their
    entry at the winner, so that the sum is the others' share alone and nothing cancels.
    """
    first_row = t.first_row
    several = p if first_row is None else p[..., first_row + 1 :]
    if np.maximum.reduce(several, None, initial=0) > SATURATED:  # one pass over the tile, 0.05 ns an entry
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
    if first_row is not None:
        dp[..., first_row] = 0
    return dp


def with_column(name: str, x: Array, factor: float, column: Any) -> Array:
    """[x * factor, column] (..., n, d + 1): the product itself then adds ``column``: a pass over the tile less."""
    wide = scratch(name, (*x.shape[:-1], x.shape[-1] + 1), x.dtype)  # (..., n, d + 1)
    np.multiply(x, factor, out=wide[..., :-1])  # (..., n, d)
    wide[..., -1] = column  # (..., n)
    return wide


def weights_again(t: Tile, k_wide: Array, lse: Array) -> Array:
    """The weights (..., c, r) once more, exp(score - lse); k_wide is [k, 1] (..., c, d_k + 1)."""
    shift = np.where(np.isneginf(lse), 0, -lse)  # (..., r)  rows that see nothing: exp(-inf - 0) = 0
    q_wide = with_column("q", t.q, t.x.scale, shift)  # (..., r, d_k + 1)
    p = scratch("weights", (*q_wide.shape[:-2], t.c, t.q.shape[-2]), t.q.dtype)
    np.matmul(k_wide, q_wide.swapaxes(-1, -2), out=p)  # (..., c, r)
    if t.x.bias is not None:
        p += t.bias.swapaxes(-1, -2)  # (..., c, r)
    add_mask(t, p)
    return np.exp(p, out=p)  # (..., c, r)


def centred_weight_gradient(
    t: Tile, g: Array, out: Array, factor: float, v_wide: Array | None = None, dp: Array | None = None
) -> Array:
    """factor * (dL/dweights - sum(p dL/dweights)), (..., c, r); v_wide, where it pays, is [v, 1] (..., c, d_v + 1)."""
    if v_wide is not None and t.dropout is None:
        mean = np.einsum("...rd,...rd->...r", g, out)  # (..., r)  sum(p dp) = g . out
        g_wide = with_column("g", g, factor, -factor * mean)  # (..., r, d_v + 1)
        return np.matmul(v_wide, g_wide.swapaxes(-1, -2), out=dp)  # (..., c, r)
    g = g * factor  # (..., r, d_v)
    dp = np.matmul(t.v, g.swapaxes(-1, -2), out=dp)  # (..., c, r)
    if t.dropout is not None:
        dp *= t.dropout.swapaxes(-1, -2)  # (..., c, r)
    g *= out  # (..., r, d_v)
    dp -= np.add.reduce(g, -1)[..., None, :]  # (..., c, r)
    return dp
