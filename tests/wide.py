"""Modules and inputs in float64 whose attention is far from uniform, for exact comparisons."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

import tinygrad_attn as ta

M = TypeVar("M", bound=ta.Module)


def wide(module: M, seed: int = 0) -> M:
    """The module in float64 with weights N(0, 1/width): scores of about 1, where 0.02 would make them tiny."""
    module.astype(np.float64)
    draws = np.random.default_rng(seed)
    for parameter in module.parameters():
        parameter.data = draws.standard_normal(parameter.shape) / parameter.shape[0] ** 0.5
    return module


def tokens(*shape: int, seed: int = 3) -> ta.Tensor:
    """A float64 leaf of N(0, 1) numbers."""
    return ta.Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)
