"""A key/value cache: in decoding, the keys and values of earlier positions do not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..autodiff.ops.shape import concatenate
from ..autodiff.tensor import Tensor


class KVCache:
    """Keys and values of the positions decoded so far, so that each new token computes only its own.

    capacity: the most positions it may hold (None: no bound).

    >>> import tinygrad_attn as ta
    >>> cache = KVCache(capacity=4)
    >>> k, v = cache.extended(ta.ones((2, 3, 8)), ta.ones((2, 3, 8)))
    >>> len(cache), k.shape
    (3, (2, 3, 8))
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.k: Tensor | None = None  # (B, n_kv_heads, length, d_k)
        self.v: Tensor | None = None  # (B, n_kv_heads, length, d_v)

    def __repr__(self) -> str:
        return f"KVCache({len(self)} positions" + ("" if self.capacity is None else f" of {self.capacity}") + ")"

    def __len__(self) -> int:
        return 0 if self.k is None else self.k.shape[-2]

    @contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """A call that is refused leaves no positions behind."""
        before = self.k, self.v
        try:
            yield
        except BaseException:
            self.k, self.v = before
            raise

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions; gives all keys and values so far.

        Errors: ValueError when they do not fit the capacity, or come from another batch; nothing is added then."""
        length = len(self) + k.shape[-2]
        if self.capacity is not None and length > self.capacity:
            raise ValueError(
                f"the cache holds {self.capacity} positions; {len(self)} are in it and {k.shape[-2]} more came"
            )
        if self.k is not None and self.v is not None:
            before, now = self.k.shape, k.shape
            if (*before[:-2], before[-1]) != (*now[:-2], now[-1]):
                raise ValueError(f"the cache holds keys {before} and keys {now} came; use a new cache for each batch")
            k, v = concatenate([self.k, k], axis=-2), concatenate([self.v, v], axis=-2)
        self.k, self.v = k, v
        return k, v
