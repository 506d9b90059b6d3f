"""One layer of a transformer, in the pre-norm form: x + attention(norm x), then + MLP(norm x)."""

from __future__ import annotations

from typing import Any

from ..attention.masks import Causal
from ..autodiff.ops.activation import gelu
from ..autodiff.ops.mask import dropout as drop
from ..autodiff.tensor import Tensor
from .attention import MultiHeadAttention
from .cache import KVCache
from .init import GPT_SIGMA, source
from .layers import LayerNorm, Linear, Seed
from .module import Module


class MLP(Module):
    """Linear to 4 d_model, GELU, Linear back."""

    def __init__(self, d_model: int, d_hidden: int, seed: Seed = None, sigma: float = GPT_SIGMA) -> None:
        rng = source(seed)
        self.up = Linear(d_model, d_hidden, seed=rng, sigma=sigma)
        self.down = Linear(d_hidden, d_model, seed=rng, sigma=sigma)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(gelu(self.up(x)))  # (..., d_model) -> (..., d_hidden) -> (..., d_model)


class Block(Module):
    """x + attn(norm1(x)), then x + mlp(norm2(x)): (..., n, d_model) -> (..., n, d_model).

    Further settings go to MultiHeadAttention.  Source: Xiong et al. 2020, On Layer Normalization in the
    Transformer Architecture, figure 1(b).

    >>> import tinygrad_attn as ta
    >>> ta.nn.Block(32, 4, seed=0, causal=True)(ta.randn(2, 5, 32)).shape
    (2, 5, 32)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        seed: Seed = None,
        *,
        causal: Causal = False,
        d_hidden: int | None = None,
        dropout: float = 0.0,
        sigma: float = GPT_SIGMA,
        eps: float = 1e-5,
        **attention: Any,
    ) -> None:
        rng = source(seed)
        self.norm1 = LayerNorm(d_model, eps)
        self.attn = MultiHeadAttention(d_model, n_heads, rng, causal=causal, dropout=dropout, sigma=sigma, **attention)
        self.norm2 = LayerNorm(d_model, eps)
        self.mlp = MLP(d_model, 4 * d_model if d_hidden is None else d_hidden, rng, sigma)
        self.dropout = dropout

    def forward(self, x: Tensor, mask: Any = None, cache: KVCache | None = None, **attention: Any) -> Tensor:
        """x (..., n, d_model) -> (..., n, d_model).  mask, cache, causal, scale: as in MultiHeadAttention's call."""
        mix = self.attn(self.norm1(x), mask=mask, cache=cache, **attention)
        x = x + drop(mix, self.dropout, self.training)  #                         (..., n, d_model)
        return x + drop(self.mlp(self.norm2(x)), self.dropout, self.training)  #  (..., n, d_model)
