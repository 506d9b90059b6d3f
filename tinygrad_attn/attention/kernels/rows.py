"""Looking inside fused attention: statistics per row, and any block, streamed without the (n_q, n_k) array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import careful, plain
from .problem import Problem

Array = Any


def row_stats(
    q: Array,
    k: Array,
    v: Array,
    g: Array | None = None,
    *,
    scale: float,
    causal_offset: int | None = None,
    keep: Array | None = None,
    bias: Array | None = None,
    dropout: Callable[..., Array] | None = None,
) -> dict[str, Array]:
    """Per head and query (..., n_q), where `score` is what the softmax receives (scaled, biased, masked):

    ``lse``        log of the sum of exp(score); -inf where the row sees nothing
    ``entropy``    of the weights, in nats
    ``largest``    the largest weight
    ``others``     1 - largest, as the sum of the other weights: it does not round to 0
    ``grad_norm``  norm of dL/dscore, with g = dL/dout given
    """
    problem = Problem(q, k, v, scale, causal_offset, keep, bias, dropout)
    xp, shape = problem.xp, (*problem.lead, problem.n_q)
    names = ["lse", "entropy", "largest", "others"] + ([] if g is None else ["grad_norm"])
    stats = {name: xp.zeros(shape, problem.dtype) for name in names}
    stats["lse"] -= xp.inf
    for t in careful.tiles(problem):
        with careful.quiet(problem.hides):
            soft = plain.softmax(xp, plain.scores(xp, t.q, t.k, problem.scale, t.seen, t.bias))
        largest = soft.p.max(axis=-1)  # (..., r)
        best = soft.p.argmax(axis=-1)[..., None]  # (..., r, 1)
        runners = xp.where(xp.arange(t.c) == best, soft.e.dtype.type(0), soft.e)  # (..., r, c)  e without the winner
        rest = runners.sum(axis=-1, keepdims=True)  # (..., r, 1)
        # lse - sum(p s) cancels in a saturated row.  Every term of this sum is >= 0: -log p_j = log(total) - shifted_j.
        surprise = xp.log1p(rest) - xp.where(soft.p > 0, soft.shifted, soft.p.dtype.type(0))  # (..., r, c)
        here = {
            "lse": plain.log_sum_exp(xp, soft),
            "entropy": (soft.p * surprise).sum(axis=-1),
            "largest": largest,
            "others": (rest / xp.maximum(soft.total, 1))[..., 0],
        }
        if g is not None:
            ds = score_gradient(problem, t, soft.p, g)[1]  # (..., r, c)
            peak = xp.abs(ds).max(axis=-1, keepdims=True)  # (..., r, 1)  squares of what is below 1e-19 would vanish
            ratio = ds / xp.where(peak == 0, 1, peak)  # (..., r, c)
            here["grad_norm"] = (peak * xp.sqrt((ratio * ratio).sum(axis=-1, keepdims=True)))[..., 0]
        for name, value in here.items():
            stats[name][t.index][..., t.rows] = value
    return stats


def block(
    q: Array,
    k: Array,
    v: Array,
    g: Array | None = None,
    *,
    rows: slice,
    columns: slice,
    scale: float,
    causal_offset: int | None = None,
    keep: Array | None = None,
    bias: Array | None = None,
    dropout: Callable[..., Array] | None = None,
) -> dict[str, Array]:
    """The asked block, each (..., r, c): ``weights``, and with g = dL/dout ``weights_grad`` and ``scores_grad``.

    ``weights`` are those before dropout; ``scores_grad`` is dL/d(what the softmax receives).  Entries
    that are masked out are 0 in all three.
    """
    problem = Problem(q, k, v, scale, causal_offset, keep, bias, dropout)
    rows = slice(*rows.indices(problem.n_q)[:2])
    first, last, _ = columns.indices(problem.n_k)
    names = ["weights"] + ([] if g is None else ["weights_grad", "scores_grad"])
    shape = (*problem.lead, max(rows.stop - rows.start, 0), max(last - first, 0))
    result = {name: problem.xp.zeros(shape, problem.dtype) for name in names}
    if 0 in shape:
        return result
    for t in careful.tiles(problem, rows):
        with careful.quiet(problem.hides):
            p = plain.softmax(problem.xp, plain.scores(problem.xp, t.q, t.k, problem.scale, t.seen, t.bias)).p
        here = {"weights": p}
        if g is not None:
            here["weights_grad"], here["scores_grad"] = score_gradient(problem, t, p, g)
        local = slice(t.rows.start - rows.start, t.rows.stop - rows.start)
        for name, value in here.items():
            asked = value[..., first : min(last, t.c)]  # (..., r, <= c)  beyond t.c all keys are hidden
            result[name][t.index][..., local, : asked.shape[-1]] = asked
    return result


def score_gradient(problem: Problem, t: careful.Tile, p: Array, g: Array) -> tuple[Array, Array]:
    """dL/dweights and dL/dscores of a tile, both (..., r, c)."""
    xp = problem.xp
    g_t = xp.broadcast_to(g.astype(problem.dtype, copy=False), (*problem.lead, *g.shape[-2:]))[t.index][..., t.rows, :]
    with careful.quiet(problem.hides):
        dp = plain.weight_gradient(xp, g_t, t.v, t.seen, t.multiplier)  # (..., r, c)
    ds = plain.softmax_gradient(xp, p, dp)  # (..., r, c)
    return dp, ds if t.seen is None else xp.where(t.seen, ds, ds.dtype.type(0))
