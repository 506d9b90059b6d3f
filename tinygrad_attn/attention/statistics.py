"""Looking inside fused attention: numbers per row, and any block, without ever making (n_q, n_k) arrays."""

from __future__ import annotations

from typing import Any

from ..autodiff.arrays import Array
from ..autodiff.dtypes import constant, plain
from . import kernels
from .checks import bias_of, scale_of, scores_shape, tensors
from .masks import Causal, causal_offset, checked


def _arguments(
    name: str, q: Any, k: Any, v: Any, mask: Any, causal: Causal, scale: float | None, bias: Any, gradient: Any
) -> Any:
    q, k, v = tensors(name, q, k, v)
    shape = scores_shape(q, k)
    g = None if gradient is None else constant(plain(gradient), q._data)
    expected = (*shape[:-1], v.shape[-1])
    if g is not None and tuple(g.shape) != expected:
        raise ValueError(f"{name}: expected gradient = dL/dout of shape {expected}, got {tuple(g.shape)}")
    settings = {
        "scale": scale_of(scale, q.shape[-1]),
        "causal_offset": causal_offset(causal, *shape[-2:]),
        "keep": checked(mask, shape, q._data),
        "bias": None if bias is None else constant(plain(bias_of(bias, shape)), q._data),
    }
    return (q._data, k._data, v._data, g), settings


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
    arrays, settings = _arguments("row_statistics", q, k, v, mask, causal, scale, bias, gradient)
    return kernels.row_stats(*arrays, **settings)


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
    """The block of queries `rows` and keys `columns` (slices): ``weights`` (..., r, c), and given gradient = dL/dout also
    ``weights_grad`` = dL/dweights and ``scores_grad`` = dL/dscores.  Hidden entries are 0.

    >>> import tinygrad_attn as ta
    >>> q = ta.zeros((1000, 4))
    >>> ta.attention_block(q, q, q, slice(0, 2), slice(0, 2), causal=True)["weights"]
    array([[1. , 0. ],
           [0.5, 0.5]], dtype=float32)
    """
    for name, part in (("rows", rows), ("columns", columns)):
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError(f"attention_block: expected {name} as a slice without a step, got {part!r}")
    arrays, settings = _arguments("attention_block", q, k, v, mask, causal, scale, bias, gradient)
    return kernels.block(*arrays, rows=rows, columns=columns, **settings)
