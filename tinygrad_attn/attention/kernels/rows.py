"""Looking inside fused attention: statistics per row, and any block, streamed without the (n_q, n_k) array."""

from __future__ import annotations

import numpy as np

from ...autodiff.arrays import Array, module_of
from ...autodiff.ops.softmax import softmax
from .operands import Operands
from .plain import gradients, scores, tiles


@np.errstate(invalid="ignore")
def row_statistics(x: Operands, g: Array | None = None) -> dict[str, Array]:
    """lse, entropy, largest, others and, with g = dL/dout (..., n_q, d_v), grad_norm: see attention/statistics.py."""
    names = ["lse", "entropy", "largest", "others"] + ([] if g is None else ["grad_norm"])
    found = {name: x.xp.zeros((*x.lead, x.n_q), x.dtype) for name in names}
    found["lse"] -= np.inf
    for t in tiles(x):
        s = scores(t)  # (..., r, c)
        p = softmax(s, -1)  # (..., r, c)
        here = weight_statistics(p)
        here["lse"] = s.max(axis=-1) - x.xp.log(
            x.xp.where(here["largest"] == 0, 1, here["largest"])
        )  # p_max = 1 / total
        if g is not None:
            ds = gradients(t, p, t.of_queries(g))[1]  # (..., r, c)
            peak = x.xp.abs(ds).max(axis=-1)  # (..., r)  squares of what is below 1e-19 would vanish
            ratio = ds / x.xp.where(peak == 0, 1, peak)[..., None]  # (..., r, c)
            here["grad_norm"] = peak * x.xp.sqrt((ratio * ratio).sum(axis=-1))
        for name, value in here.items():
            found[name][t.index][..., t.rows] = value
    return found


def weight_statistics(p: Array) -> dict[str, Array]:
    """entropy in nats, largest weight and the sum of the others, each (..., r), of weights (..., r, c), c >= 1.
    Without the winner nothing cancels: -sum p log p = -sum_others p log p - largest log1p(-others)."""
    xp = module_of(p)
    winner = p.argmax(axis=-1)[..., None]  # (..., r, 1)
    largest = xp.take_along_axis(p, winner, axis=-1)[..., 0]
    rest = xp.where(xp.arange(p.shape[-1]) == winner, p.dtype.type(0), p)  # (..., r, c)
    others = rest.sum(axis=-1)
    surprise = xp.log(xp.where(rest > 0, rest, p.dtype.type(1)))  # (..., r, c)
    return {
        "entropy": -(rest * surprise).sum(axis=-1) - largest * xp.log1p(-others),
        "largest": largest,
        "others": others,
    }


@np.errstate(invalid="ignore")
def block(x: Operands, g: Array | None, rows: slice, columns: slice) -> dict[str, Array]:
    """The asked block, each (..., r, c): ``weights`` before dropout, and with g = dL/dout ``weights_grad`` and
    ``scores_grad``, the gradient at what the softmax receives.  Masked entries are 0 in all three."""
    rows, columns = (slice(*part.indices(n)[:2]) for part, n in ((rows, x.n_q), (columns, x.n_k)))
    shape = (*x.lead, max(rows.stop - rows.start, 0), max(columns.stop - columns.start, 0))
    names = ["weights"] + ([] if g is None else ["weights_grad", "scores_grad"])
    found = {name: x.xp.zeros(shape, x.dtype) for name in names}
    for t in tiles(x, rows) if 0 not in shape else ():
        p = softmax(scores(t), -1)  # (..., r, c)
        here = (p,) if g is None else (p, *gradients(t, p, t.of_queries(g)))
        place = slice(t.rows.start - rows.start, t.rows.stop - rows.start)
        for name, value in zip(names, here):
            asked = value[..., columns]  # (..., r, <= c)  beyond t.c all keys are hidden
            found[name][t.index][..., place, : asked.shape[-1]] = asked
    return found
