"""Dropout on attention weights as a function of the position, so that blocks can be drawn alone and again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autodiff.arrays import Array
from ..autodiff.ops.mask import factors
from ..autodiff.random import bits, next_key


class Pattern:
    """What dropout multiplies weights (..., n_q, n_k) by; ``pattern(index, rows, columns)`` gives a part.

    index: one slice per leading axis, rows and columns: slices over queries and keys."""

    def __init__(self, shape: tuple[int, ...], rate: float, like: Array) -> None:
        self.shape, self.rate, self.like = shape, rate, like
        self.key, self.first = next_key()

    def whole(self) -> Array:
        """All factors, (..., n_q, n_k)."""
        return self(tuple(slice(None) for _ in self.shape[:-2]), slice(None), slice(None))

    def __call__(self, index: tuple[slice, ...], rows: slice, columns: slice) -> Array:
        *leading, n_q, n_k = self.shape
        start, stop, _ = rows.indices(n_q)
        picked = [range(*part.indices(n)) for part, n in zip(index, leading)]
        # Each (batch entry, head...) is one run of n_q rows; the batch axis comes first and starts at `first`.
        places = np.zeros((), np.int64)
        for axis, (part, n) in enumerate(zip(picked, leading)):
            offset = self.first if axis == 0 else 0
            places = places[..., None] * n + np.asarray(part, np.int64) + offset
        threshold = np.uint32(min(round(self.rate * 2**32), 2**32 - 1))
        drawn = np.empty((places.size, stop - start, len(range(*columns.indices(n_k)))), bool)
        for i, place in enumerate(places.reshape(-1)):
            drawn[i] = bits(self.key, int(place) * n_q + start, stop - start, n_k)[:, columns] >= threshold
        return factors(drawn.reshape(*places.shape, *drawn.shape[1:]), self.rate, self.like)


def pattern_of(shape: tuple[int, ...], rate: float, like: Any) -> Pattern | None:
    """None for rate 0.  Errors: ValueError for a rate outside [0, 1]."""
    if not 0.0 <= rate <= 1.0 or math.isnan(rate):
        raise ValueError(f"dropout: expected a rate between 0 and 1, got {rate}")
    return Pattern(shape, rate, like) if rate else None
