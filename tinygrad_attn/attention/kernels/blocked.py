"""The walk over tiles on the CPU: which heads and rows come together, and where their gradients go."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

from . import tile
from .problem import Index, Problem, laid_out_like, lead_tiles, part, row_tiles, sum_to, triangle
from .threads import run, scratch

Array = np.ndarray

TILE = 1 << 18  # scores in a tile: 1 MB, what a core's L2 holds
SHORT = 1 << 21  # up to this many scores the weights are kept for backward (8 MB): no second product, no second exp
FEWEST_ROWS = 64  # products of fewer rows lose more than the cache gains
CAUSAL_ROWS = 64  # keys above the diagonal are skipped a row tile at a time: at least this many rows,
CAUSAL_TILES = 8  # or so many tiles that only 1/16 of the work falls above the diagonal
ALONE = 1 << 16  # below this many scores a second thread costs more than it brings

adding = threading.Lock()  # the bias may be shared by heads of different threads


class RowTile(NamedTuple):
    """Query rows that come together."""

    rows: slice
    c: int  # how many keys any of them sees
    place: slice  # where their weights are kept, one tile after the other: contiguous, hidden keys left out


class Plan:
    """How a call too large for one tile is cut.  Forward and backward cut alike."""

    __slots__ = ("heads", "kept", "rows", "short")

    def __init__(self, problem: Problem) -> None:
        size, per_head = problem.size, problem.n_q * problem.n_k
        self.short = size <= SHORT
        step = problem.n_q if per_head <= TILE else max(TILE // problem.n_k, FEWEST_ROWS)
        if problem.causal_offset is not None:
            step = min(step, max(CAUSAL_ROWS, problem.n_q // CAUSAL_TILES))
        self.rows, self.kept = [], 0
        for rows in row_tiles(problem.n_q, step):
            c = problem.columns(rows)
            self.rows.append(RowTile(rows, c, slice(self.kept, self.kept + c * (rows.stop - rows.start))))
            self.kept = self.rows[-1].place.stop
        together = min(TILE // per_head, -(-(size // per_head) // 2))  # at least two tiles: one for each thread
        self.heads = lead_tiles(problem.lead, together)


def hide(problem: Problem, index: Index, rows: slice, c: int) -> Array | None:
    """What to add to the last keys of a tile, 0 or -inf: (..., <= c, r)."""
    offset, added = problem.causal_offset, None
    if offset is not None:
        clear = min(max(rows.start + offset + 1, 0), c)  # these keys are visible to every row of the tile
        if clear < c:
            added = triangle(
                rows.stop - rows.start, c - clear, clear - rows.start - offset, problem.dtype.char
            )  # (c - clear, r)
    if problem.keep is not None:
        kept = problem.keep_part(index, rows, c).swapaxes(-1, -2)  # (..., c | 1, r | 1)
        number = problem.dtype.type
        masked = np.where(kept, number(0), number(-np.inf))  # (..., c | 1, r | 1)
        if masked.shape[-2] != c:
            masked = np.broadcast_to(masked, (*masked.shape[:-2], c, masked.shape[-1]))
        if added is not None:
            masked = np.broadcast_to(masked, (*masked.shape[:-1], added.shape[1])).copy()  # (..., c, r)
            masked[..., c - added.shape[0] :, :] += added
        added = masked
    return added


def forward_whole(problem: Problem, remember: bool) -> tuple[Array, Array | None]:
    """A small call in one tile, in as few array calls as can be: 7 for (1, 4, 8, 16), most of about 1 us."""
    n_q, n_k, v = problem.n_q, problem.n_k, problem.v
    e, safe = tile.scores(problem.q, problem.k, problem.scale, problem.bias, None)  # (..., n_k, n_q)
    hidden = None
    if problem.keep is not None:
        hidden = hide(problem, problem.everything, slice(0, n_q), n_k)  # (..., <= n_k, n_q)
    elif problem.causal_offset is not None:
        hidden = triangle(n_q, n_k, -problem.causal_offset, problem.dtype.char)  # (n_k, n_q)
    multiplier = problem.multiplier(None, slice(0, n_q), n_k)
    return tile.mix(e, safe, v, hidden, problem.blind, multiplier, None, None, True), e if remember else None


def backward_whole(
    problem: Problem, g: Array, out: Array, p: Array, needs: tuple[bool, bool, bool, bool]
) -> list[Array | None]:
    """dq, dk, dv, dbias from the kept weights p (..., n_k, n_q), in 10 array calls."""
    q, k, v, scale = problem.q, problem.k, problem.v, problem.scale
    rows = slice(0, problem.n_q)
    factor = 1.0 if needs[3] else scale
    multiplier = problem.multiplier(None, rows, problem.n_k)
    dp = tile.centred_weight_gradient(g, v, out, factor, multiplier, None, None)  # (..., n_k, n_q)
    ds = tile.score_gradient(p, dp, problem.lonely(rows))  # (..., n_k, n_q)
    dq = np.matmul(ds.swapaxes(-1, -2), k) if needs[0] else None  # (..., n_q, d_k)
    dk = np.matmul(ds, q) if needs[1] else None  # (..., n_k, d_k)
    dropped = p if multiplier is None else p * multiplier.swapaxes(-1, -2)  # (..., n_k, n_q)
    dv = np.matmul(dropped, g) if needs[2] else None  # (..., n_k, d_v)
    if not needs[3]:
        return [dq, dk, dv, None]
    dq, dk = (None if x is None else x * scale for x in (dq, dk))
    return [dq, dk, dv, sum_to(ds.swapaxes(-1, -2), problem.bias.shape)]


def forward(problem: Problem, remember: bool) -> tuple[Array, Array | None]:
    q, k, v = problem.q, problem.k, problem.v
    plan = Plan(problem)
    out = laid_out_like(q, (*problem.lead, problem.n_q, v.shape[-1]), problem.dtype)
    each = (1, plan.kept) if plan.short else (problem.n_q,)
    kept: Any = np.empty((*problem.lead, *each), problem.dtype) if remember else None

    def heads(index: Index) -> None:
        q_h, k_h, v_h, out_h, kept_h = (part(x, index) for x in (q, k, v, out, kept))
        for rows, c, place in plan.rows:
            if c == 0:
                out_h[..., rows, :] = 0
                if kept is not None and not plan.short:
                    kept_h[..., rows] = -np.inf
                continue
            shape = (*out_h.shape[:-2], c, rows.stop - rows.start)  # (..., c, r)
            weights: Any = None
            lse: Any = None
            if kept is not None and plan.short:
                weights = kept_h[..., 0, place].reshape(shape)  # (..., c, r)  a view
            elif kept is not None:
                lse = kept_h[..., rows]  # (..., r)
            hidden, bias = hide(problem, index, rows, c), problem.bias_part(index, rows, c)
            room = scratch("weights", shape, problem.dtype) if weights is None else weights  # (..., c, r)
            e, safe = tile.scores(q_h[..., rows, :], k_h[..., :c, :], problem.scale, bias, room)  # (..., c, r)
            multiplier = problem.multiplier(index, rows, c)
            tile.mix(
                e,
                safe,
                v_h[..., :c, :],
                hidden,
                problem.blind,
                multiplier,
                out_h[..., rows, :],
                lse,
                weights is not None,
            )

    run(heads, plan.heads)
    return out, kept


def backward(
    problem: Problem, g: Array, out: Array, kept: Array, needs: tuple[bool, bool, bool, bool]
) -> list[Array | None]:
    """dq, dk, dv with every leading axis (not yet summed over broadcast ones), and dbias; None where not needed."""
    q, k, v, scale = problem.q, problem.k, problem.v, problem.scale
    plan = Plan(problem)
    lead, dtype = problem.lead, problem.dtype
    factor = 1.0 if needs[3] else scale  # dbias is dL/dscores itself; else scale rides along on g, a smaller array
    dq: Any = laid_out_like(q, (*lead, problem.n_q, q.shape[-1]), dtype) if needs[0] else None
    dk: Any = laid_out_like(k, (*lead, problem.n_k, k.shape[-1]), dtype) if needs[1] else None
    dv: Any = laid_out_like(v, (*lead, problem.n_k, v.shape[-1]), dtype) if needs[2] else None
    dbias: Any = np.zeros(problem.bias.shape, dtype) if needs[3] else None

    def heads(index: Index) -> None:
        q_h, k_h, v_h, g_h, out_h, kept_h = (part(x, index) for x in (q, k, v, g, out, kept))
        k_wide: Any = None
        v_wide: Any = None
        if not plan.short:
            k_wide, v_wide = tile.with_column("k", k_h, 1, 1), tile.with_column("v", v_h, 1, 1)  # (..., n_k, d + 1)
        for rows, c, place in plan.rows:
            first = rows.stop == problem.n_q
            if first:  # keys that no query sees
                for gradient in (dk, dv):
                    if gradient is not None:
                        gradient[index][..., c:, :] = 0
            if c == 0:
                if dq is not None:
                    dq[index][..., rows, :] = 0
                continue
            q_r, g_r = q_h[..., rows, :], g_h[..., rows, :]
            multiplier = problem.multiplier(index, rows, c)
            if plan.short:
                p = kept_h[..., 0, place].reshape((*out_h.shape[:-2], c, rows.stop - rows.start))  # (..., c, r)
            else:
                hidden, bias = hide(problem, index, rows, c), problem.bias_part(index, rows, c)
                p = tile.weights_again(q_r, k_wide[..., :c, :], kept_h[..., rows], scale, hidden, bias)  # (..., c, r)
            v_c = None if v_wide is None else v_wide[..., :c, :]
            dp = scratch("gradient", p.shape, dtype)
            tile.centred_weight_gradient(
                g_r, v_h[..., :c, :], out_h[..., rows, :], factor, multiplier, v_c, dp
            )  # (..., c, r)
            if dv is not None:
                dropped = p if multiplier is None else p * multiplier.swapaxes(-1, -2)  # (..., c, r)
                add_product(dropped, g_r, dv[index][..., :c, :], first)  # (..., c, d_v)
            ds = tile.score_gradient(p, dp, problem.lonely(rows))  # (..., c, r)
            if dk is not None:
                add_product(ds, q_r, dk[index][..., :c, :], first)  # (..., c, d_k)
            if dq is not None:
                np.matmul(ds.swapaxes(-1, -2), k_h[..., :c, :], out=dq[index][..., rows, :])  # (..., r, d_k)
            if dbias is not None:
                target = part(dbias, index)[..., rows if dbias.shape[-2] > 1 else slice(None), :c]
                share = sum_to(ds.swapaxes(-1, -2), target.shape)
                with adding:
                    target += share

    run(heads, plan.heads)
    if dbias is not None:
        for gradient in (dq, dk):
            if gradient is not None:
                gradient *= scale
    return [dq, dk, dv, dbias]


def add_product(a: Array, b: Array, target: Array, first: bool) -> None:
    """target (+)= a @ b; the first one writes."""
    if first:
        np.matmul(a, b, out=target)
    else:
        target += np.matmul(a, b, out=scratch("product", target.shape, target.dtype))
