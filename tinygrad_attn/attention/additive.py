"""Additive attention: the score of a query and a key is a tiny neural network with one hidden layer.

        q (n_q, d_q)          k (n_k, d_k)
          │ W_q (d_q, d_a)      │ W_k (d_k, d_a)
          └──── tanh(q W_q + k W_k) ────┘        every pair: hidden (n_q, n_k, d_a)
                scores = hidden . w              w (d_a,)
                masked, weights, mix             as in explicit.py

Every pair has its own hidden layer: d_a times the memory of a dot product, but nothing that grows with
the width of q and k, so that no scaling is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.mode import show
from ..autodiff.ops.activation import tanh
from ..autodiff.ops.choice import where
from ..autodiff.ops.shape import expand_dims
from ..autodiff.tensor import Tensor
from .absent import nan_guard, without_unseen
from .call import checked
from .checks import as_tensors, float32
from .explicit import weigh
from .masks import Causal


def additive_attention(
    q: Any,
    k: Any,
    v: Any,
    W_q: Any,
    W_k: Any,
    w: Any,
    mask: Any = None,
    *,
    causal: Causal = False,
    bias: Any = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(w . tanh(q W_q + k W_k) + bias) v over visible keys: (output (..., n_q, d_v), weights (..., n_q, n_k)).

    q (..., n_q, d_q), k (..., n_k, d_k), v (..., n_k, d_v), W_q (d_q, d_a), W_k (d_k, d_a), w (d_a,).  mask, causal,
    bias, dropout and the rules for empty rows and NaN are those of ``scaled_dot_product_attention``; with
    ``functools.partial(additive_attention, W_q=..., W_k=..., w=...)`` one takes the other's place.

    Errors: ValueError for shapes that do not fit; TypeError for a float mask.
    Source: Bahdanau, Cho, Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate,
    section 3.1 and appendix A.1.2.

    >>> import tinygrad_attn as ta
    >>> q, k, v = ta.ones((1, 2)), ta.ones((3, 4)), ta.ones((3, 5))
    >>> out, weights = ta.additive_attention(q, k, v, ta.ones((2, 8)), ta.ones((4, 8)), ta.ones(8))
    >>> out.shape, weights.shape
    ((1, 5), (1, 3))
    """
    q, k, v, W_q, W_k, w = as_tensors(q, k, v, W_q, W_k, w)
    q, k, v, bias, call = checked("additive_attention", q, k, v, mask, causal, 1.0, bias, dropout, same_width=False)
    _check_weights(q, k, W_q, W_k, w)
    for name, x in (("q", q), ("k", k), ("v", v)):
        show(name, x)
    visible = call.visible(q.shape[-2], k.shape[-2], q._data)  #          (..., n_q, n_k)
    guard = nan_guard(visible, q, k, v)
    dtype = np.result_type(q.dtype, k.dtype)
    q, k, W_q, W_k, w = (float32(x) for x in (q, k, W_q, W_k, w))
    if guard is not None:
        q, k = without_unseen(q, k, guard)
    from_q = expand_dims(q @ W_q, -2)  #                                  (..., n_q, 1, d_a)
    from_k = expand_dims(k @ W_k, -3)  #                                  (..., 1, n_k, d_a)
    both = from_q + from_k  #                                             (..., n_q, n_k, d_a)
    if guard is not None:
        both = where(guard[..., None], both, 0.0)  #                      invisible pairs never meet tanh
    hidden = tanh(both).named("hidden")  #                                (..., n_q, n_k, d_a)
    scores = (hidden @ w).named("scores")  #                              (..., n_q, n_k, d_a) @ (d_a,)
    return weigh(scores, v, bias, visible, guard, call, dtype)


def _check_weights(q: Tensor, k: Tensor, W_q: Tensor, W_k: Tensor, w: Tensor) -> None:
    fits = (
        (W_q.ndim, W_k.ndim, w.ndim) == (2, 2, 1)
        and (W_q.shape[0], W_k.shape[0]) == (q.shape[-1], k.shape[-1])
        and W_q.shape[1] == W_k.shape[1] == w.shape[0]
    )
    if not fits:
        raise ValueError(
            f"additive_attention: expected W_q ({q.shape[-1]}, d_a), W_k ({k.shape[-1]}, d_a) and w (d_a,), "
            f"got W_q {W_q.shape}, W_k {W_k.shape}, w {w.shape}"
        )
