"""The walk over plain tiles: for GPU arrays in one tile, for the CPU where NaN or inf hides behind a mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from . import plain
from .problem import Index, Problem, lead_tiles, part, row_tiles, sum_to

Array = Any

TILE = 1 << 18  # scores in a tile on the CPU: memory stays linear in the sequence


class Tile:
    """The inputs of one tile, shapes (..., r, .) and (..., c, .)."""

    __slots__ = ("bias", "c", "index", "k", "multiplier", "q", "rows", "seen", "v")

    def __init__(self, problem: Problem, index: Index, rows: slice) -> None:
        c = problem.columns(rows)
        self.index, self.rows, self.c = index, rows, c
        self.q = part(problem.q, index)[..., rows, :]
        self.k = part(problem.k, index)[..., :c, :]
        self.v = part(problem.v, index)[..., :c, :]
        self.seen = problem.seen(index, rows, c)
        self.bias = problem.bias_part(index, rows, c)
        self.multiplier = problem.multiplier(index, rows, c)


def tiles(problem: Problem, rows: slice | None = None) -> Iterator[Tile]:
    """The tiles of the asked rows that see any key."""
    rows = slice(0, problem.n_q) if rows is None else rows
    indices, step = [problem.everything], problem.n_q
    if problem.xp is np and problem.n_k:
        indices = lead_tiles(problem.lead, TILE // (problem.n_q * problem.n_k) if problem.n_q else 1)
        step = max(TILE // problem.n_k, 1)
    for index in indices:
        for each in row_tiles(rows.stop - rows.start, step):
            each = slice(each.start + rows.start, each.stop + rows.start)
            if problem.columns(each) > 0:
                yield Tile(problem, index, each)


def quiet(careful: bool) -> AbstractContextManager:
    """Keep NumPy from warning of NaN that is hidden; what is visible arrives in the result anyway."""
    return np.errstate(invalid="ignore") if careful else nullcontext()


def forward(problem: Problem) -> tuple[Array, Array]:
    """out (..., n_q, d_v) and the row log-sum-exp (..., n_q)."""
    xp = problem.xp
    careful = problem.hides and problem.size > 0 and not problem.calm(problem.q, problem.k, problem.v)
    out = xp.zeros((*problem.lead, problem.n_q, problem.v.shape[-1]), problem.dtype)
    lse = xp.full((*problem.lead, problem.n_q), -xp.inf, problem.dtype)
    with quiet(careful):
        for t in tiles(problem):
            out[t.index][..., t.rows, :], lse[t.index][..., t.rows] = plain.forward(
                xp, t.q, t.k, t.v, problem.scale, t.seen, t.bias, t.multiplier, careful
            )
    return out, lse


def backward(problem: Problem, g: Array, needs: tuple[bool, bool, bool, bool]) -> list[Array | None]:
    """dq, dk, dv with every leading axis, and dbias where needed."""
    xp, q, k, v = problem.xp, problem.q, problem.k, problem.v
    careful = problem.hides and problem.size > 0 and not problem.calm(q, k, v, g)
    dq, dk, dv = (xp.zeros(problem.lead + x.shape[-2:], problem.dtype) for x in (q, k, v))
    dbias: Any = xp.zeros(problem.bias.shape, problem.dtype) if needs[3] else None
    with quiet(careful):
        for t in tiles(problem):
            g_t = g[t.index][..., t.rows, :]  # (..., r, d_v)
            dq_t, dk_t, dv_t, ds = plain.backward(
                xp, g_t, t.q, t.k, t.v, problem.scale, t.seen, t.bias, t.multiplier, careful
            )
            dq[t.index][..., t.rows, :] = dq_t
            dk[t.index][..., : t.c, :] += dk_t
            dv[t.index][..., : t.c, :] += dv_t
            if dbias is not None:
                target = part(dbias, t.index)[..., t.rows if dbias.shape[-2] > 1 else slice(None), : t.c]
                target += sum_to(ds, target.shape)
    return [dq, dk, dv, dbias]
