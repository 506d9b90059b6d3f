"""Fused attention on bare arrays: softmax(scale q k^T + bias) v without the (n_q, n_k) array.

    out, kept = forward(q, k, v, scale=d_k**-0.5, causal_offset=0)
    dq, dk, dv, dbias = backward(g, q, k, v, out, kept, scale=d_k**-0.5, causal_offset=0)

Shapes: q (..., n_q, d_k), k (..., n_k, d_k), v (..., n_k, d_v), out (..., n_q, d_v).  Leading axes
broadcast; each gradient has the shape and dtype of its input.

``scale``          a number.
``causal_offset``  None, or o: key j is visible to query i iff j <= i + o.
``keep``           boolean, broadcastable to (..., n_q, n_k), True = may attend; or None.
``bias``           floats, broadcastable to (..., n_q, n_k), added to the scaled scores; or None.
``dropout``        None, or a function (index, rows, columns) of slices, one per leading axis, over the queries
                   and over the keys, that gives what the weights there are multiplied with, broadcastable to
                   (..., r, c).  Backward asks again and must be given the same numbers.

What a query may not see counts as absent, in value and gradient, even where it is NaN or inf (on the CPU).  A query
that sees nothing gives 0, with gradient 0.

Files, easy first: plain (the formula, exact), careful (its walk), problem (shapes and tiles),
tile (the fast form), blocked (its walk), threads, rows (statistics and blocks for the reader).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import blocked, careful
from .problem import Problem, sum_to
from .rows import block, row_stats

__all__ = ["backward", "block", "forward", "row_stats"]

Array = Any


def forward(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float,
    causal_offset: int | None = None,
    keep: Array | None = None,
    bias: Array | None = None,
    dropout: Callable[..., Array] | None = None,
    remember: bool = True,
) -> tuple[Array, Array | None]:
    """out (..., n_q, d_v), and what backward needs (None unless `remember`).

    That is the row log-sum-exp (..., n_q) for long sequences.  For short ones on the CPU it is the weights,
    in an order of their own: at most 8 MB, and backward takes a quarter to a third less time.
    """
    problem = Problem(q, k, v, scale, causal_offset, keep, bias, dropout)
    size = problem.size
    if problem.xp is not np or not size or (problem.hides and not problem.calm(problem.q, problem.k, problem.v)):
        out, kept = careful.forward(problem)
    elif size <= blocked.ALONE:
        out, kept = blocked.forward_whole(problem, remember)
    else:
        out, kept = blocked.forward(problem, remember)
    if out.dtype != q.dtype:
        out = out.astype(np.result_type(q.dtype, k.dtype, v.dtype, *([] if bias is None else [bias.dtype])), copy=False)
    return out, kept


def backward(
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    kept: Array,
    *,
    scale: float,
    causal_offset: int | None = None,
    keep: Array | None = None,
    bias: Array | None = None,
    dropout: Callable[..., Array] | None = None,
    needs: tuple[bool, bool, bool, bool] = (True, True, True, False),
) -> tuple[Array | None, ...]:
    """dq, dk, dv, dbias from g = dL/dout (..., n_q, d_v); None where `needs` says so."""
    problem = Problem(q, k, v, scale, causal_offset, keep, bias, dropout)
    exact_out = out.dtype == problem.dtype
    if g.dtype != problem.dtype:
        g = g.astype(problem.dtype, copy=False)
    size = problem.size
    # A float16 output is too coarse for g . out, from which the fast form gets the mean of dL/dweights.
    fast = problem.xp is np and size > 0 and exact_out
    if fast and size <= blocked.ALONE and kept.ndim == problem.q.ndim and (not problem.hides or problem.calm(g)):
        gradients = blocked.backward_whole(
            problem, g, out, kept, needs
        )  # that weights were kept says that q, k, v are calm
    elif fast and size > blocked.ALONE and (not problem.hides or problem.calm(problem.q, problem.k, problem.v, g)):
        gradients = blocked.backward(problem, g, out, kept, needs)
    else:
        gradients = careful.backward(problem, g, needs)
    pairs = zip((q, k, v, bias), gradients, needs, strict=True)
    return tuple([_like(x, gradient) if needed else None for x, gradient, needed in pairs])


def _like(x: Array, gradient: Array) -> Array:
    """`gradient` summed to the shape, and cast to the dtype, of the input that it belongs to."""
    if gradient.shape == x.shape and gradient.dtype == x.dtype:
        return gradient
    return sum_to(gradient, x.shape).astype(x.dtype, copy=False)
