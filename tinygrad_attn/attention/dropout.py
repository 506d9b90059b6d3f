"""Dropout on attention weights as a function of the position, so that blocks can be drawn alone and again."""

from __future__ import annotations

import math

import numpy as np

from ..autodiff.arrays import Array
from ..autodiff.ops.mask import factors
from ..autodiff.random import bits, next_key


class Dropout:
    """What dropout multiplies weights (..., n_q, n_k) by; ``dropout(index, rows, columns)`` gives a part.

    index: one slice per leading axis, rows and columns: slices over queries and keys."""

    def __init__(self, rate: float, shape: tuple[int, ...], like: Array) -> None:
        self.rate, self.shape, self.like = rate, shape, like
        self.key, self.first = next_key()

    def whole(self) -> Array:
        """All factors, (..., n_q, n_k)."""
        return self(tuple(slice(None) for _ in self.shape[:-2]), slice(None), slice(None))

    def __call__(self, index: tuple[slice, ...], rows: slice, columns: slice) -> Array:
        *lead, n_q, n_k = self.shape
        # v may have more heads than the scores: they share factors, as they share weights
        index = tuple([slice(None) if n == 1 else i for n, i in zip(lead, index[len(index) - len(lead) :])])
        start, stop, _ = rows.indices(n_q)
        # Each (batch entry, head...) is one run of n_q rows; the batch axis comes first and starts at `first`.
        before = self.first * math.prod(lead[1:]) if lead else 0
        places = before + np.arange(math.prod(lead)).reshape(lead)[index]
        threshold = np.uint32(min(round(self.rate * 2**32), 2**32 - 1))
        survives = np.empty((places.size, stop - start, len(range(*columns.indices(n_k)))), bool)
        for i, place in enumerate(places.reshape(-1)):
            survives[i] = bits(self.key, int(place) * n_q + start, stop - start, n_k)[:, columns] >= threshold
        return factors(survives.reshape(*places.shape, *survives.shape[1:]), self.rate, self.like)


def dropout_of(rate: float, shape: tuple[int, ...], like: Array) -> Dropout | None:
    """None for rate 0.  Errors: ValueError for a rate outside [0, 1]."""
    if not 0.0 <= rate <= 1.0:  # NaN too
        raise ValueError(f"dropout: expected a rate between 0 and 1, got {rate}")
    return Dropout(rate, shape, like) if rate else None
