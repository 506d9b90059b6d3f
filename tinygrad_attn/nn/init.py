"""Initialisation: Gaussian numbers from a seed, drawn on the CPU, so that every device starts alike."""

from __future__ import annotations

import numpy as np

from ..autodiff.random import generator
from ..autodiff.tensor import Tensor

GPT_SIGMA = 0.02  # the width that GPT-2 uses for every matrix: small scores, nearly uniform attention


def source(seed: int | np.random.Generator | None) -> np.random.Generator:
    """A generator from a seed; a generator itself; None: the framework's (see ``ta.manual_seed``)."""
    if isinstance(seed, np.random.Generator):
        return seed
    return generator() if seed is None else np.random.default_rng(seed)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], sigma: float) -> Tensor:
    """A float32 parameter of independent N(0, sigma^2) numbers."""
    return Tensor(rng.standard_normal(shape) * sigma, requires_grad=True, dtype=np.float32)
