"""Scaled dot-product attention with every step visible.

q (n_q, d_k)   k (n_k, d_k)   v (n_k, d_v)
     └── q k^T ──┘             │
      scores (n_q, n_k)        │
      scaled = scores * scale  │
      masked: -inf where hidden│
      weights = softmax(masked)│     each row sums to 1
           └──── weights v ────┘
              mix (n_q, d_v)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.arrays import Array
from ..autodiff.mode import show
from ..autodiff.ops.elementwise import astype
from ..autodiff.ops.mask import masked_fill
from ..autodiff.ops.softmax import softmax
from ..autodiff.tensor import Tensor
from .absent import nan_guard, visible_mix, visible_scores
from .call import Call, checked
from .checks import float32
from .masks import Causal


def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: Causal = False,
    scale: float | None = None,
    bias: Any = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T * scale + bias) v over visible keys: (output (..., n_q, d_v), weights (..., n_q, n_k)).

    q (..., n_q, d_k), k (..., n_k, d_k), v (..., n_k, d_v).  mask: booleans that broadcast to (..., n_q, n_k),
    True = may attend.  causal: True, "top-left" or "bottom-right".  scale: None is 1/sqrt(d_k), 1.0 the
    unscaled attention whose gradients vanish.  bias: numbers added to the scaled scores.  dropout: rate
    on the weights; the returned weights are those before dropout.

    A row that sees no key gives 0.  NaN behind the mask stays behind it, in values and gradients (on the
    CPU).  float16 computes scores to softmax in float32.

    Errors: ValueError for shapes that do not fit, or causal=True with n_q != n_k; TypeError for a float mask.
    Source: Vaswani et al. 2017, Attention Is All You Need, section 3.2.1.

    >>> import tinygrad_attn as ta
    >>> out, weights = ta.scaled_dot_product_attention(ta.ones((1, 2)), ta.ones((3, 2)), ta.ones((3, 5)))
    >>> out.shape, weights.shape
    ((1, 5), (1, 3))
    """
    return attend(*checked("scaled_dot_product_attention", q, k, v, mask, causal, scale, bias, dropout))


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Any, call: Call) -> tuple[Tensor, Tensor]:
    """The steps, on checked arguments."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        show(name, x)
    visible = call.visible(q.shape[-2], k.shape[-2], q._data)  #          (..., n_q, n_k)
    guard = nan_guard(visible, q, k, v)
    wide_q, wide_k = float32(q), float32(k)  #                            float16 products overflow at 65504
    if guard is None:
        scores = wide_q @ wide_k.mT  #                                    (..., n_q, d_k) @ (..., d_k, n_k)
    else:
        scores = visible_scores(wide_q, wide_k, guard)  #                 the same, NaN behind the mask left out
    scores.named("scores")  #                                             (..., n_q, n_k)
    scaled = (scores * call.scale).named("scaled")  #                     (..., n_q, n_k)
    return weigh(scaled, v, bias, visible, guard, call, np.result_type(q.dtype, k.dtype))


def weigh(
    scaled: Tensor, v: Tensor, bias: Any, visible: Array | None, guard: Array | None, call: Call, dtype: Any
) -> tuple[Tensor, Tensor]:
    """From finished scores (..., n_q, n_k) to (mix (..., n_q, d_v), weights (..., n_q, n_k)): the steps that
    every way of scoring shares.  guard: see ``nan_guard``."""
    biased = scaled if bias is None else scaled + bias  #                 (..., n_q, n_k)
    masked = biased if visible is None else masked_fill(biased, ~visible, -float("inf")).named("masked")
    weights = softmax(masked, -1)  #                                      (..., n_q, n_k), rows sum to 1
    if guard is not None:
        weights = masked_fill(weights, ~guard, 0.0)  #                    a NaN row is NaN only where it may see
    weights.named(
        "weights"
    )  #                                           float32 where q is float16: so must dL/dweights be
    dropped = weights if call.dropout is None else weights * call.dropout.whole()  # (..., n_q, n_k)
    wanted, v = np.result_type(dtype, v.dtype), float32(v)
    mix = dropped @ v if guard is None else visible_mix(dropped, v, guard)
    mix = astype(mix, wanted) if wanted == np.float16 else mix
    weights = astype(weights, dtype) if dtype == np.float16 else weights
    return mix.named("mix"), weights  #                                   (..., n_q, n_k) @ (..., n_k, d_v)
