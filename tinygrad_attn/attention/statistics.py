"""Looking inside fused attention: numbers per row, and any block, without ever making (n_q, n_k) arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.arrays import Array
from ..autodiff.dtypes import constant, plain
from . import kernels
from .call import checked
from .masks import Causal


def row_statistics(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    gradient: Any = None,
    causal: Causal = False,
    scale: float | None = None,
    bias: Any = None,
) -> dict[str, Array]:
    """Per head and query, arrays (..., n_q), streamed block by block (memory linear in the sequence):

    lse        log of the sum of exp(score), -inf where the row sees no key
    entropy    of the weights, in nats, in the form that does not cancel when one weight is nearly 1
    largest    the largest weight
    others     1 - largest, as the sum of the other weights: it does not round to 0
    grad_norm  norm of dL/dscores, given gradient = dL/dout (..., n_q, d_v)

    Arguments as in ``fused_attention``.  Score means scaled, biased and masked.

    >>> import tinygrad_attn as ta
    >>> stats = ta.row_statistics(ta.zeros((2, 4)), ta.zeros((8, 4)), ta.zeros((8, 4)))
    >>> stats["largest"]
    array([0.125, 0.125], dtype=float32)
    """
    return kernels.row_statistics(*_operands("row_statistics", q, k, v, mask, causal, scale, bias, gradient))


def attention_block(
    q: Any,
    k: Any,
    v: Any,
    rows: slice,
    columns: slice,
    mask: Any = None,
    *,
    gradient: Any = None,
    causal: Causal = False,
    scale: float | None = None,
    bias: Any = None,
) -> dict[str, Array]:
    """The block of queries `rows` and keys `columns` (slices): ``weights`` (..., r, c), and given gradient = dL/dout
    also ``weights_grad`` = dL/dweights and ``scores_grad`` = dL/dscores.  Invisible entries are 0.

    >>> import tinygrad_attn as ta
    >>> q = ta.zeros((1000, 4))
    >>> ta.attention_block(q, q, q, slice(0, 2), slice(0, 2), causal=True)["weights"]
    array([[1. , 0. ],
           [0.5, 0.5]], dtype=float32)
    """
    for name, part in (("rows", rows), ("columns", columns)):
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError(f"attention_block: expected {name} as a slice without a step, got {part!r}")
    return kernels.block(*_operands("attention_block", q, k, v, mask, causal, scale, bias, gradient), rows, columns)


def _operands(
    name: str, q: Any, k: Any, v: Any, mask: Any, causal: Causal, scale: float | None, bias: Any, gradient: Any
) -> tuple[kernels.Operands, Array | None]:
    """The arguments, checked, as arrays, and dL/dout."""
    q, k, v, bias, call = checked(name, q, k, v, mask, causal, scale, bias)
    bias, g = (None if x is None else constant(plain(x), q._data) for x in (bias, gradient))
    x = kernels.Operands(q._data, k._data, v._data, bias, call)
    expected = (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), x.n_q, v.shape[-1])
    if g is not None and tuple(g.shape) != expected:
        raise ValueError(f"{name}: expected gradient = dL/dout of shape {expected}, got {tuple(g.shape)}")
    return x, None if g is None else x.xp.broadcast_to(g.astype(x.dtype), (*x.lead, *expected[-2:]))
