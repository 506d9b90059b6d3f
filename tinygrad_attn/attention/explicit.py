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

from ..backend import Array, module_of
from ..mode import seen
from ..ops.elementwise import astype, where
from ..ops.mask import masked_fill
from ..ops.shape import expand_dims
from ..ops.softmax import softmax
from ..tensor import Tensor
from .inputs import scale_of, scores_shape, tensors
from .masks import Causal, causal_offset, checked, visible
from .pattern import Pattern, pattern_of


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
    Source: Vaswani et al. 2017, Attention Is All You Need, section 3.2.1.

    >>> import tinygrad_attn as ta
    >>> out, weights = ta.scaled_dot_product_attention(ta.ones((1, 2)), ta.ones((3, 2)), ta.ones((3, 5)))
    >>> out.shape, weights.shape
    ((1, 5), (1, 3))
    """
    q, k, v = tensors("scaled_dot_product_attention", q, k, v)
    shape = scores_shape(q, k)
    keep, offset = checked(mask, shape, q._data), causal_offset(causal, *shape[-2:])
    pattern = pattern_of(shape, dropout, q._data)
    return attend(q, k, v, bias, keep, offset, scale_of(scale, q.shape[-1]), pattern)


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Any, keep: Array | None, offset: int | None, scale: float, pattern: Pattern | None
) -> tuple[Tensor, Tensor]:
    """The steps, on checked arguments: keep is a boolean array or None; key j is visible to query i only
    where j <= i + offset (None: everywhere)."""
    seen("q", q), seen("k", k), seen("v", v)
    keep = visible(keep, offset, scores_shape(q, k), q._data)  #          (..., n_q, n_k)
    wide = _float32(q), _float32(k)
    guard = keep is not None and not _all_finite(q, k, v)
    scores = _seen_scores(*wide, keep) if guard else wide[0] @ wide[1].mT  # (..., n_q, d_k) @ (..., d_k, n_k)
    scores.named("scores")  #                                             (..., n_q, n_k)
    scaled = (scores * scale).named("scaled")  #                          (..., n_q, n_k)
    biased = scaled if bias is None else scaled + bias  #                 (..., n_q, n_k)
    masked = biased if keep is None else masked_fill(biased, ~keep, -float("inf")).named("masked")
    weights = softmax(masked, -1)  #                                      (..., n_q, n_k), rows sum to 1
    if guard:
        weights = masked_fill(weights, ~keep, 0.0)  #                     a NaN row hides nothing else
    weights = astype(weights, q.dtype) if weights.dtype != q.dtype else weights
    weights.named("weights")
    dropped = weights if pattern is None else weights * pattern.whole()  # (..., n_q, n_k)
    mix = _seen_mix(dropped, v, keep) if guard else dropped @ v  #        (..., n_q, n_k) @ (..., n_k, d_v)
    return mix.named("mix"), weights  #                                   (..., n_q, d_v)


def _float32(x: Tensor) -> Tensor:
    return astype(x, "float32") if x.dtype == "float16" else x


# ---------------------------------------------------------------------------- NaN behind a mask


def _all_finite(*tensors: Tensor) -> bool:
    """One look per call, on the CPU only: on a GPU it would wait for the device."""
    return all(module_of(t._data).__name__ != "numpy" or bool(module_of(t._data).isfinite(t._data).all()) for t in tensors)


def _seen_scores(q: Tensor, k: Tensor, keep: Array) -> Tensor:
    """q k^T pair by pair, where a hidden key is 0: 0 * NaN never happens, forward or backward."""
    pairs = where(keep[..., None], expand_dims(k, -3), 0.0)  #            (..., n_q, n_k, d_k)
    return (expand_dims(q, -2) * pairs).sum(axis=-1)  #                   (..., n_q, n_k)


def _seen_mix(weights: Tensor, v: Tensor, keep: Array) -> Tensor:
    """weights v pair by pair, where a hidden value is 0."""
    pairs = where(keep[..., None], expand_dims(v, -3), 0.0)  #            (..., n_q, n_k, d_v)
    return (expand_dims(weights, -1) * pairs).sum(axis=-2)  #             (..., n_q, d_v)
