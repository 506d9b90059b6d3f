"""Attention on bare arrays in ordinary operations: exact, for any array module, and proof against NaN.

This is the readable form of the kernels.  It runs whole on GPU arrays, and tile by tile on the CPU where NaN or
inf stands behind a mask.  NumPy's warnings of NaN are off: what is visible arrives in the result anyway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autodiff.arrays import Array
from ...autodiff.ops.softmax import softmax
from ...autodiff.walk import sum_to
from ..absent import visible_mix, visible_scores
from .operands import Operands, Tile, head_tiles, row_tiles

TILE = 1 << 18  # scores in a tile on the CPU: memory stays linear in the sequence


def tiles(x: Operands, rows: slice | None = None) -> Iterator[Tile]:
    """The tiles of the asked rows that see any key; on a GPU one."""
    rows, heads, step = rows or slice(0, x.n_q), x.size, x.n_q
    if x.xp is np and x.n_q and x.n_k:
        heads, step = TILE // (x.n_q * x.n_k), max(TILE // x.n_k, 1)
    for index in head_tiles(x.lead, heads):
        yield from (Tile(x, index, each) for each in row_tiles(rows, step) if x.columns(each) > 0)


def scores(t: Tile) -> Array:
    """What the softmax receives: scaled, biased, masked (..., r, c)."""
    s = (t.q * t.x.scale) @ t.k.swapaxes(-1, -2)  # (..., r, c)  scaled first: float16 inputs must not overflow
    s = s if t.bias is None else s + t.bias  # (..., r, c)
    # Replaced, not added: NaN does not survive.
    return s if t.visible is None else t.x.xp.where(t.visible, s, s.dtype.type(-np.inf))  # (..., r, c)


def gradients(t: Tile, p: Array, g: Array) -> tuple[Array, Array]:
    """dL/dweights and dL/dscores of a tile, both (..., r, c), from g = dL/dout (..., r, d_v): a product and the rule
    of softmax, in which nothing cancels where a row is saturated (ops/softmax.py)."""
    dp = g @ t.v.swapaxes(-1, -2) if t.visible is None else visible_scores(g, t.v, t.visible)  # (..., r, c)
    dp = dp if t.dropout is None else dp * t.dropout
    ds = softmax.op.rules[0](dp, p, -1)  # (..., r, c)
    return dp, ds if t.visible is None else t.x.xp.where(t.visible, ds, ds.dtype.type(0))  # NaN stays off unseen keys


def mix(a: Array, b: Array, visible: Array | None) -> Array:
    """a @ b, (..., r, c) @ (..., c, d); where `visible` is given NaN in b reaches only those who see it."""
    return a @ b if visible is None else visible_mix(a, b, visible)


@np.errstate(invalid="ignore")
def forward(x: Operands) -> Array:
    """out (..., n_q, d_v)"""
    nan = x.may_hold_nan(x.q, x.k, x.v)
    out = x.xp.zeros((*x.lead, x.n_q, x.v.shape[-1]), x.dtype)
    for t in tiles(x):
        p = softmax(scores(t), -1)  # (..., r, c)
        t.of_queries(out)[...] = mix(p if t.dropout is None else p * t.dropout, t.v, t.visible if nan else None)
    return out


@np.errstate(invalid="ignore")
def backward(x: Operands, g: Array, needs: tuple[bool, ...]) -> list[Any]:
    """dq, dk, dv with every leading axis, and dbias where needed; all recomputed from the inputs."""
    nan = x.may_hold_nan(x.q, x.k, x.v, g)
    dq, dk, dv = (x.xp.zeros(x.lead + a.shape[-2:], x.dtype) for a in (x.q, x.k, x.v))
    dbias = x.xp.zeros(x.bias.shape, x.dtype) if needs[3] else None
    for t in tiles(x):
        p, g_t = softmax(scores(t), -1), t.of_queries(g)  # (..., r, c) and (..., r, d_v)
        visible = t.visible if nan else None
        p = p if visible is None else x.xp.where(visible, p, p.dtype.type(0))  # a NaN row is NaN only where it may see
        ds = gradients(t, p, g_t)[1]  # (..., r, c)
        across = None if visible is None else visible.swapaxes(-1, -2)  # (..., c, r)
        dropped = p if t.dropout is None else p * t.dropout  # (..., r, c)
        t.of_queries(dq)[...] = mix(ds, t.k, visible) * x.scale  # (..., r, d_k)
        dk[t.index][..., : t.c, :] += mix(ds.swapaxes(-1, -2), t.q, across) * x.scale  # (..., c, d_k)
        dv[t.index][..., : t.c, :] += mix(dropped.swapaxes(-1, -2), g_t, across)  # (..., c, d_v)
        if dbias is not None:
            target = t.of_scores(dbias)
            target += sum_to(ds, target.shape)
    return [dq, dk, dv, dbias]
