"""Fused attention on bare arrays: softmax(scale q k^T + bias) v without the (n_q, n_k) array.

    out, residual = forward(q, k, v, bias, Call(scale=d_k**-0.5, offset=0))
    dq, dk, dv, dbias = backward(g, q, k, v, bias, call, out, residual, needs)

Shapes: q (..., n_q, d_k), k (..., n_k, d_k), v (..., n_k, d_v), out (..., n_q, d_v), bias broadcastable to
(..., n_q, n_k) or None.  Leading axes broadcast; each gradient has the shape and dtype of its input.  How attention
was called is one record (call.py).  Its `dropout` is a function (index, rows, columns) of slices, one per leading
axis, over the queries and over the keys, that gives what the weights there are multiplied with; backward asks
again and must be given the same numbers.

What a query may not see counts as absent, in value and gradient, even where it is NaN or inf (on the CPU).  A query
that sees nothing gives 0, with gradient 0.

Files, easy first: operands (shapes and tiles), plain (the formula, exact), rows (statistics and blocks for the
reader), tile (the fast form), blocked (its walk), threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autodiff.arrays import Array
from ...autodiff.walk import sum_to
from ..call import Call
from . import blocked, plain, tile
from .operands import Operands, Tile
from .rows import block, row_statistics, weight_statistics

__all__ = ["Operands", "backward", "block", "forward", "row_statistics", "weight_statistics"]

Needs = tuple[bool, ...]  # which of dq, dk, dv, dbias are asked for


def forward(q: Array, k: Array, v: Array, bias: Any, call: Call) -> tuple[Array, Array | None]:
    """out (..., n_q, d_v), and the residual that the fast backward needs; None: backward takes the plain form.

    The residual is the row log-sum-exp (..., n_q) of long sequences.  Of short ones it is the weights, in an
    order of their own: at most 8 MB, and backward takes a quarter to a third less time.
    """
    x, residual = Operands(q, k, v, bias, call), None
    if x.xp is not np or not x.size or x.may_hold_nan(x.q, x.k, x.v):
        out = plain.forward(x)
    else:
        out, residual = tile.forward(Tile(x)) if x.size <= blocked.ONE_TILE else blocked.forward(x)
    if out.dtype != q.dtype:
        out = out.astype(np.result_type(*(a.dtype for a in (q, k, v, bias) if a is not None)), copy=False)
    # A float16 output is too coarse for g . out, from which the fast backward gets the mean of dL/dweights.
    return out, residual if out.dtype == x.dtype else None


def backward(
    g: Array, q: Array, k: Array, v: Array, bias: Any, call: Call, out: Array, residual: Array | None, needs: Needs
) -> list[Array | None]:
    """dq, dk, dv, dbias from g = dL/dout (..., n_q, d_v); None where `needs` says so."""
    x = Operands(q, k, v, bias, call)
    g = g.astype(x.dtype, copy=False)
    if residual is None or x.may_hold_nan(g):
        gradients = plain.backward(x, g, needs)
    else:
        fast = blocked.backward_whole if x.size <= blocked.ONE_TILE else blocked.backward
        gradients = fast(x, g, out, residual, needs)
    return [_like(a, d) if needed else None for a, d, needed in zip((q, k, v, bias), gradients, needs)]


def _like(x: Array, gradient: Array) -> Array:
    """`gradient` summed to the shape, and cast to the dtype, of the input that it belongs to."""
    if gradient.shape == x.shape and gradient.dtype == x.dtype:
        return gradient
    return sum_to(gradient, x.shape).astype(x.dtype, copy=False)
