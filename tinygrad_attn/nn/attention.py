"""Multi-head attention: several attentions side by side, each on its own projection of x.

x (B, n, d_model)
  q = x W_Q -> (B, n_heads, n, d_k)         W_Q (d_model, n_heads * d_k)
  k = c W_K -> (B, n_kv_heads, n_k, d_k)    c: the context, x itself by default
  v = c W_V -> (B, n_kv_heads, n_k, d_v)
  mix = attention(q, k, v)                  (B, n_heads, n, d_v)
  out = mix, heads side by side, W_O        (B, n, d_model)
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from ..attention import fused_attention, scaled_dot_product_attention
from ..attention.masks import Causal
from ..autodiff.create import zeros
from ..autodiff.dtypes import plain
from ..autodiff.ops.shape import broadcast_to, expand_dims, reshape, split, swapaxes
from ..autodiff.tensor import Tensor
from .cache import KVCache
from .init import GPT_SIGMA, gaussian
from .layers import Seed, source
from .module import Module

Tie = Literal["qk", "kv", "qkv"]
Form = Literal["fused", "explicit"]


class MultiHeadAttention(Module):
    """n_heads attentions in parallel; W_Q, W_K, W_V, W_O ~ N(0, 0.02^2) from `seed`, no biases by default.

    d_k, d_v: width of a head (default d_model / n_heads).  n_kv_heads: heads of k and v, each shared by
    n_heads / n_kv_heads heads of q.  causal, scale: as in ``scaled_dot_product_attention``.  tie: "qk",
    "kv" or "qkv" makes one matrix serve as both or all three.  packed: one W_QKV holds the same numbers.
    dropout: rate on the weights while training.  attention: "fused" never makes the (n, n_k) arrays; "explicit"
    does, and is used anyway when the weights are asked for.
    Source: Vaswani et al. 2017, section 3.2.2; grouped queries: Ainslie et al. 2023, section 2.2.

    Errors: ValueError when n_heads does not divide d_model, or a tie does not fit the widths.

    >>> import tinygrad_attn as ta
    >>> mha = ta.nn.MultiHeadAttention(64, 4, seed=0)
    >>> mha(ta.randn(2, 5, 64)).shape, mha.W_Q.shape
    ((2, 5, 64), (64, 64))
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        seed: Seed = None,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        n_kv_heads: int | None = None,
        causal: Causal = False,
        scale: float | None = None,
        tie: Tie | None = None,
        packed: bool = False,
        bias: bool = False,
        dropout: float = 0.0,
        sigma: float = GPT_SIGMA,
        attention: Form = "fused",
    ) -> None:
        self.d_model, self.n_heads = d_model, n_heads
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        self.d_k, self.d_v = (d_model // max(n_heads, 1) if width is None else width for width in (d_k, d_v))
        self.causal, self.scale, self.tie, self.packed = causal, scale, tie, packed
        self.dropout, self.attention = dropout, attention
        if n_heads < 1 or (d_model % n_heads and None in (d_k, d_v)):
            raise ValueError(f"n_heads must divide d_model, got {d_model = } and {n_heads = }; or give d_k and d_v")
        qk, kv = tie in ("qk", "qkv"), tie in ("kv", "qkv")
        self._check_settings(qk, kv)
        rng = source(seed)
        widths = (n_heads * self.d_k, self.n_kv_heads * self.d_k, self.n_kv_heads * self.d_v)
        W_Q, W_K, W_V = (gaussian(rng, (d_model, width), sigma) for width in widths)
        if packed:
            self.W_QKV = Tensor(np.concatenate([W.numpy() for W in (W_Q, W_K, W_V)], axis=1), requires_grad=True)
        else:
            self.W_Q = W_Q
            self.W_K = W_Q if qk else W_K
            self.W_V = self.W_K if kv else W_V
        self.W_O = gaussian(rng, (n_heads * self.d_v, d_model), sigma)
        self.b_QKV = zeros(sum(widths), requires_grad=True) if bias else None
        self.b_O = zeros(d_model, requires_grad=True) if bias else None
        self._cuts = [widths[0], widths[0] + widths[1]]

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Any = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
        *,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> Any:
        """x (..., n, d_model) -> (..., n, d_model); with return_weights also (..., n_heads, n, n_k).

        context: where keys and values come from (cross attention).  mask: booleans (..., n, n_k), or
        (..., 1, n, n_k) or per head (..., n_heads, n, n_k).  cache: decode after the positions it holds.
        causal, scale: for this call, in place of the module's own."""
        self._check(x, context, cache)
        with nullcontext() if cache is None else cache.restored_on_error():
            q, k, v = self._projected(x, x if context is None else context)
            causal = self.causal if causal is None else causal
            if cache is not None:
                k, v = cache.extended(k, v)
                causal = "bottom-right" if causal else False
            if self.n_kv_heads != self.n_heads:
                k, v = self._repeated(k), self._repeated(v)  #            (..., n_heads, n_k, d)
            scale, rate = self.scale if scale is None else scale, self.dropout if self.training else 0.0
            mask, weights = self._mask(mask, x), None
            if self.attention == "fused" and not return_weights:
                mix = fused_attention(q, k, v, mask, causal=causal, scale=scale, dropout=rate)  # (..., n_heads, n, d_v)
            else:  # and weights (..., n_heads, n, n_k)
                mix, weights = scaled_dot_product_attention(q, k, v, mask, causal=causal, scale=scale, dropout=rate)
        n = x.shape[-2]
        beside = reshape(swapaxes(mix, -3, -2), (*x.shape[:-2], n, self.n_heads * self.d_v))
        out = beside @ self.W_O  #                                    (..., n, n_heads d_v) @ (n_heads d_v, d_model)
        out = (out if self.b_O is None else out + self.b_O).named("out")
        return (out, weights) if return_weights else out

    def _check_settings(self, qk: bool, kv: bool) -> None:
        """qk, kv: does `tie` make one matrix of W_Q and W_K, of W_K and W_V?"""
        heads, kv_heads, widths = self.n_heads, self.n_kv_heads, (self.d_model, self.d_k, self.d_v)
        wrong = ""
        if kv_heads < 1 or heads % kv_heads:
            wrong = f"n_kv_heads must divide n_heads, got {kv_heads} and {heads}"
        elif min(widths) < 1 or not 0.0 <= self.dropout <= 1.0:
            wrong = (
                f"expected positive widths (d_model, d_k, d_v) and a dropout from 0 to 1, got {widths}, {self.dropout}"
            )
        elif self.tie is not None and not (qk or kv):
            wrong = f'tie: expected None, "qk", "kv" or "qkv", got {self.tie!r}'
        elif self.tie is not None and self.packed:
            wrong = "tie and packed exclude each other: a packed W_QKV has three separate parts"
        elif (qk and kv_heads != heads) or (kv and self.d_k != self.d_v):
            wrong = f'tie={self.tie!r} needs equal widths: "qk" as many kv heads as heads, "kv" d_k = d_v'
        elif self.attention not in ("fused", "explicit"):
            wrong = f'attention: expected "fused" or "explicit", got {self.attention!r}'
        if wrong:
            raise ValueError(f"MultiHeadAttention: {wrong}")

    def _check(self, x: Tensor, context: Tensor | None, cache: KVCache | None) -> None:
        for name, value in (("x", x), ("context", context)):
            shape = getattr(value, "shape", type(value).__name__)
            if value is not None and (len(shape) < 2 or shape[-1] != self.d_model):
                raise ValueError(f"MultiHeadAttention: expected {name} (..., n, d_model = {self.d_model}), got {shape}")
        if context is not None and cache is not None:
            raise ValueError("MultiHeadAttention: a cache is for self-attention; the keys of a context do not grow")

    def _projected(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (..., n_heads, n, d_k), k (..., n_kv_heads, n_k, d_k), v (..., n_kv_heads, n_k, d_v)"""
        if self.packed and context is x:
            parts = split(x @ self.W_QKV, self._cuts)  #               (..., n, d_model) @ (d_model, all widths)
        else:
            W = split(self.W_QKV, self._cuts) if self.packed else [self.W_Q, self.W_K, self.W_V]
            parts = [x @ W[0], context @ W[1], context @ W[2]]
        if self.b_QKV is not None:
            parts = [part + b for part, b in zip(parts, split(self.b_QKV, self._cuts))]
        q, k, v = parts
        return self._heads(q, self.d_k), self._heads(k, self.d_k), self._heads(v, self.d_v)

    def _heads(self, x: Tensor, width: int) -> Tensor:
        """(..., n, heads * width) -> (..., heads, n, width)"""
        return swapaxes(reshape(x, (*x.shape[:-1], x.shape[-1] // width, width)), -3, -2)

    def _repeated(self, x: Tensor) -> Tensor:
        """(..., n_kv_heads, n, d) -> (..., n_heads, n, d): each kv head serves a group of heads."""
        *batch, heads, n, d = x.shape
        group = self.n_heads // heads
        return reshape(broadcast_to(expand_dims(x, -3), (*batch, heads, group, n, d)), (*batch, heads * group, n, d))

    def _mask(self, mask: Any, x: Tensor) -> Any:
        """A mask per batch entry (B, n, n_k) gets its head axis."""
        if mask is None:
            return None
        mask = plain(mask)
        mask = mask if hasattr(mask, "ndim") else np.asarray(mask)
        return mask[..., None, :, :] if mask.ndim == x.ndim > 2 else mask
