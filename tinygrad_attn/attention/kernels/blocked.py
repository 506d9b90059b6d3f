"""The walk over tiles on the CPU: which heads and rows come together, and where their gradients go."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ...autodiff.walk import sum_to
from . import tile
from .operands import Index, Operands, Tile, head_tiles, laid_out_like, part, row_tiles
from .threads import run, scratch

Array = np.ndarray

TILE = 1 << 18  # scores in a tile: 1 MB, what a core's L2 holds
SHORT = 1 << 21  # up to this many scores the weights are kept for backward (8 MB): no second product, no second exp
FEWEST_ROWS = 64  # products of fewer rows lose more than the cache gains
CAUSAL_ROWS = 64  # keys above the diagonal are skipped a row tile at a time: at least this many rows,
CAUSAL_TILES = 8  # or so many tiles that only 1/16 of the work falls above the diagonal
ONE_TILE = 1 << 16  # up to this many scores a second thread costs more than it brings

adding = threading.Lock()  # the bias may be shared by heads of different threads


def backward_whole(x: Operands, g: Array, out: Array, p: Array, needs: tuple[bool, ...]) -> list[Array | None]:
    """dq, dk, dv, dbias of a small call, which is one tile, from the saved weights p (..., n_k, n_q), in as few
    array calls as can be: 10 for (1, 4, 8, 16), most of about 1 us."""
    t = Tile(x)
    dp = tile.centred_weight_gradient(t, g, out, 1.0 if needs[3] else x.scale)  # (..., n_k, n_q)
    ds = tile.score_gradient(t, p, dp)  # (..., n_k, n_q)
    across = ds.swapaxes(-1, -2)  # (..., n_q, n_k)
    dq = np.matmul(across, x.k) if needs[0] else None  # (..., n_q, d_k)
    dk = np.matmul(ds, x.q) if needs[1] else None  # (..., n_k, d_k)
    dv = np.matmul(tile.drop(t, p), g) if needs[2] else None  # (..., n_k, d_v)
    if not needs[3]:
        return [dq, dk, dv, None]
    dq, dk = (None if a is None else a * x.scale for a in (dq, dk))
    return [dq, dk, dv, sum_to(across, x.bias.shape)]


class Plan:
    """How a call too large for one tile is cut.  Forward and backward cut alike."""

    def __init__(self, x: Operands) -> None:
        per_head, saved = x.n_q * x.n_k, 0
        step = x.n_q if per_head <= TILE else max(TILE // x.n_k, FEWEST_ROWS)
        if x.offset is not None:
            step = min(step, max(CAUSAL_ROWS, x.n_q // CAUSAL_TILES))
        # Rows that come together, and where their weights are saved: one tile after the other, without hidden keys.
        self.rows: list[tuple[slice, slice]] = []
        for rows in row_tiles(slice(0, x.n_q), step):
            self.rows.append((rows, slice(saved, saved := saved + x.columns(rows) * (rows.stop - rows.start))))
        together = min(TILE // per_head, -(-(x.size // per_head) // 2))  # at least two tiles: one for each thread
        self.heads = head_tiles(x.lead, together)
        self.short = x.size <= SHORT
        self.residual = saved if self.short else x.n_q  # numbers saved for a head: its weights, or the log-sum-exp

    def tile(self, x: Operands, index: Index, rows: slice, residual: Array, place: slice) -> tuple[Tile, Any, Any]:
        """A tile, and its part of what is saved: (tile, weights (..., c, r), None) or (tile, None, lse (..., r))."""
        t = Tile(x, index, rows)
        if not self.short:
            return t, None, residual[index][..., rows]
        return t, residual[index][..., place].reshape(*t.q.shape[:-2], t.c, t.q.shape[-2]), None


def forward(x: Operands) -> tuple[Array, Array]:
    """out (..., n_q, d_v), and what backward needs."""
    plan = Plan(x)
    out = laid_out_like(x.q, (*x.lead, x.n_q, x.v.shape[-1]), x.dtype)
    residual = np.empty((*x.lead, plan.residual), x.dtype)

    def heads(index: Index) -> None:
        for rows, place in plan.rows:
            t, weights, lse = plan.tile(x, index, rows, residual, place)
            target = t.of_queries(out)  # (..., r, d_v)
            if t.c == 0:
                target[...] = 0
                continue
            if weights is None:
                weights = scratch("weights", (*t.q.shape[:-2], t.c, t.q.shape[-2]), x.dtype)  # (..., c, r)
            tile.forward(t, weights, target, lse)

    run(heads, plan.heads)
    return out, residual


def backward(x: Operands, g: Array, out: Array, residual: Array, needs: tuple[bool, ...]) -> list[Array | None]:
    """dq, dk, dv with every leading axis (not yet summed over broadcast ones), and dbias; None where not needed."""
    plan = Plan(x)
    factor = 1.0 if needs[3] else x.scale  # dbias is dL/dscores itself; else scale rides along on g, a smaller array
    dq, dk, dv = (
        laid_out_like(a, (*x.lead, *a.shape[-2:]), x.dtype) if needed else None
        for a, needed in zip((x.q, x.k, x.v), needs)
    )
    dbias = np.zeros(x.bias.shape, x.dtype) if needs[3] else None

    def heads(index: Index) -> None:
        wide = None if plan.short else [tile.with_column(n, part(a, index), 1, 1) for n, a in (("k", x.k), ("v", x.v))]
        for gradient in (dk, dv):
            if gradient is not None:  # the last rows come first, and write; keys beyond theirs get nothing
                gradient[index][..., x.columns(slice(0, x.n_q)) :, :] = 0
        for rows, place in plan.rows:
            t, p, lse = plan.tile(x, index, rows, residual, place)
            if t.c == 0:
                if dq is not None:
                    t.of_queries(dq)[...] = 0
                continue
            k_wide: Any
            k_wide, v_wide = (None, None) if wide is None else (a[..., : t.c, :] for a in wide)  # (..., c, d + 1)
            p = tile.weights_again(t, k_wide, lse) if p is None else p  # (..., c, r)
            g_t, first = t.of_queries(g), rows.stop == x.n_q  # (..., r, d_v)
            room = scratch("gradient", p.shape, x.dtype)
            dp = tile.centred_weight_gradient(t, g_t, t.of_queries(out), factor, v_wide, room)  # (..., c, r)
            if dv is not None:
                add_product(tile.drop(t, p), g_t, dv[index][..., : t.c, :], first)  # (..., c, d_v)
            ds = tile.score_gradient(t, p, dp)  # (..., c, r)
            if dk is not None:
                add_product(ds, t.q, dk[index][..., : t.c, :], first)  # (..., c, d_k)
            if dq is not None:
                np.matmul(ds.swapaxes(-1, -2), t.k, out=t.of_queries(dq))  # (..., r, d_k)
            if dbias is not None:
                target = t.of_scores(dbias)
                share = sum_to(ds.swapaxes(-1, -2), target.shape)
                with adding:
                    target += share

    run(heads, plan.heads)
    if needs[3]:
        dq, dk = (None if a is None else np.multiply(a, x.scale, out=a) for a in (dq, dk))
    return [dq, dk, dv, dbias]


def add_product(a: Array, b: Array, target: Array, first: bool) -> None:
    """target (+)= a @ b; the first one writes."""
    if first:
        np.matmul(a, b, out=target)
    else:
        target += np.matmul(a, b, out=scratch("product", target.shape, target.dtype))
