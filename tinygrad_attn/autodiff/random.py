"""Random numbers: one seeded generator for the framework, and dropout patterns by position.

Drawn on the CPU and then moved: the same seed gives the same weights on every device.  NumPy's global
state is neither read nor changed.

A dropout pattern is a function of a key and of the position, by a counter-based generator (Salmon et al.
2011, Parallel Random Numbers: As Easy as 1, 2, 3): any part of it can be drawn alone and again.  So fused
attention draws it block by block, and N workers that share a batch draw what one would have drawn."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .mode import current

Key = tuple[int, int]  # two 64-bit words

_GENERATOR: np.random.Generator | None = None  # made when it is first asked for: numpy.random is slow to load


def manual_seed(seed: int) -> None:
    """Start the framework's random numbers again from `seed` (parameters, randn, dropout).

    >>> import tinygrad_attn as ta
    >>> ta.manual_seed(7); a = ta.randn(2); ta.manual_seed(7); bool((a.data == ta.randn(2).data).all())
    True
    """
    global _GENERATOR
    _GENERATOR = np.random.default_rng(seed)


def generator() -> np.random.Generator:
    """The framework's generator, as last seeded by ``manual_seed`` (0 before)."""
    if _GENERATOR is None:
        manual_seed(0)
    assert _GENERATOR is not None
    return _GENERATOR


@contextmanager
def restored() -> Iterator[None]:
    """``with restored(): ...``: afterwards random numbers go on as if nothing was drawn or seeded inside.

    >>> import tinygrad_attn as ta
    >>> ta.manual_seed(7)
    >>> with restored():
    ...     inside = ta.randn(2)
    >>> bool((inside.data == ta.randn(2).data).all())
    True
    """
    global _GENERATOR
    before = generator()
    _GENERATOR = copy.deepcopy(before)
    try:
        yield
    finally:
        _GENERATOR = before


def next_key() -> tuple[Key, int]:
    """The key of the next pattern, and the position of this batch's first entry in the global batch."""
    draws = current().draws
    if draws is not None:
        return draws()
    high, low = generator().integers(2**63, size=2)
    return (int(high), int(low)), 0


def bits(key: Key, first: int, rows: int, width: int) -> np.ndarray:
    """uint32 numbers (rows, width): row i is that of position first + i under `key`."""
    blocks = -(-width // 8)  # a counter step makes four 64-bit words, eight numbers: rows start at whole steps
    source = np.random.Philox(key=np.array(key, np.uint64), counter=first * blocks)
    return source.random_raw(rows * blocks * 4).view(np.uint32).reshape(rows, blocks * 8)[:, :width]


def kept(key: Key, first: int, shape: tuple[int, ...], rate: float) -> np.ndarray:
    """Booleans of `shape`, each True with probability 1 - rate; axis 0 is the batch, from position `first`."""
    rows = shape[0] if shape else 1
    width = math.prod(shape[1:])
    threshold = np.uint32(min(round(rate * 2**32), 2**32 - 1))
    return (bits(key, first, rows, width) >= threshold).reshape(shape)
