"""Linear, Embedding, LayerNorm, Dropout."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..autodiff.create import ones, zeros
from ..autodiff.ops.affine import affine
from ..autodiff.ops.index import embedding
from ..autodiff.ops.mask import dropout
from ..autodiff.ops.norm import layer_norm
from ..autodiff.tensor import Tensor
from .init import gaussian, source
from .module import Module

Seed: TypeAlias = "int | np.random.Generator | None"  # as text: numpy.random is slow to load


class Linear(Module):
    """x @ W + b: x (..., d_in) -> (..., d_out).  W starts as N(0, sigma^2), sigma = 1/sqrt(d_in) by default; b as 0.

    >>> import tinygrad_attn as ta
    >>> ta.nn.Linear(3, 4, seed=0)(ta.ones((2, 3))).shape
    (2, 4)
    """

    def __init__(self, d_in: int, d_out: int, bias: bool = True, seed: Seed = None, sigma: float | None = None) -> None:
        self.W = gaussian(source(seed), (d_in, d_out), 1.0 / math.sqrt(max(d_in, 1)) if sigma is None else sigma)
        self.b = zeros(d_out, requires_grad=True) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.W if self.b is None else affine(x, self.W, self.b)  # (..., d_in) @ (d_in, d_out) + (d_out,)


class Embedding(Module):
    """Rows of a table: integers (...) -> (..., d).

    >>> import numpy as np, tinygrad_attn as ta
    >>> ta.nn.Embedding(10, 4, seed=0)(np.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(self, count: int, d: int, seed: Seed = None, sigma: float = 1.0) -> None:
        self.W = gaussian(source(seed), (count, d), sigma)

    def forward(self, indices: Any) -> Tensor:
        return embedding(self.W, indices)  # (...) -> (..., d)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * gain + bias over the last axis.

    >>> import tinygrad_attn as ta
    >>> ta.nn.LayerNorm(4)(ta.randn(2, 4)).shape
    (2, 4)
    """

    def __init__(self, d: int, eps: float = 1e-5) -> None:
        self.gain = ones(d, requires_grad=True)
        self.bias = zeros(d, requires_grad=True)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.gain, self.bias, self.eps)


class Dropout(Module):
    """Zeroes entries with probability `rate` while training; the identity after ``.eval()``."""

    def __init__(self, rate: float) -> None:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"Dropout: expected a rate between 0 and 1, got {rate}")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, self.training)
