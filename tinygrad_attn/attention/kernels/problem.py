"""One call of attention: its shapes, its number type, and how it is cut into tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ...autodiff.arrays import module_of

Array = Any
Index = tuple[slice, ...]  # one slice per leading axis: which heads a tile holds


class Problem:
    """The inputs of a call, all of one floating type and with equally many axes."""

    __slots__ = (
        "bias",
        "causal_offset",
        "dropout",
        "dtype",
        "k",
        "keep",
        "lead",
        "n_k",
        "n_q",
        "q",
        "scale",
        "v",
        "xp",
    )

    bias: Any  # an array or None, like keep
    keep: Any

    def __init__(
        self,
        q: Array,
        k: Array,
        v: Array,
        scale: float,
        causal_offset: int | None,
        keep: Array | None,
        bias: Array | None,
        dropout: Callable[[Index, slice, slice], Array] | None,
    ) -> None:
        self.xp = module_of(q)
        dtype = q.dtype
        # float16 is computed in float32 throughout: more than its rules ask for, and the CPU has no half product.
        if bias is not None or k.dtype != dtype or v.dtype != dtype or dtype.char not in "fd":
            dtype = np.result_type(q.dtype, k.dtype, v.dtype, np.float32, *([] if bias is None else [bias.dtype]))
            q, k, v = (x.astype(dtype, copy=False) for x in (q, k, v))
            bias = None if bias is None else bias.astype(dtype, copy=False)
        lead = q.shape[:-2]
        if k.shape[:-2] != lead or v.shape[:-2] != lead or keep is not None or bias is not None:
            lead = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v, keep, bias) if x is not None))
            q, k, v, keep, bias = (None if x is None else _with_axes(x, len(lead) + 2) for x in (q, k, v, keep, bias))
            q = self.xp.broadcast_to(q, lead + q.shape[-2:])  # then scores always have every leading axis
        self.q, self.k, self.v, self.keep, self.bias = q, k, v, keep, bias
        self.scale, self.causal_offset, self.dropout = float(scale), causal_offset, dropout
        self.dtype, self.lead, self.n_q, self.n_k = dtype, lead, q.shape[-2], k.shape[-2]

    @property
    def everything(self) -> Index:
        return tuple([slice(0, n) for n in self.lead])

    @property
    def hides(self) -> bool:
        return self.keep is not None or self.causal_offset is not None

    @property
    def blind(self) -> bool:
        """True if there may be queries that see nothing."""
        return self.keep is not None or (self.causal_offset is not None and self.causal_offset < 0)

    @property
    def size(self) -> int:
        """How many scores there are."""
        return math.prod(self.lead) * self.n_q * self.n_k

    def calm(self, *arrays: Array) -> bool:
        """True if `arrays` are finite and no product of two of them can overflow.

        |a.b| <= |a| |b|: a finite sum of squares answers both questions in one pass.  Large finite
        numbers may raise a false alarm, which costs time, never correctness.  The bias may be -inf.
        """
        if self.xp is np:
            if self.bias is not None and not np.maximum.reduce(self.bias, None) < np.inf:
                return False
            for x in arrays:
                x = in_memory_order(
                    x
                )  # heads are a transposed view: vdot would copy it first, 3 of 40 ms a training step
                if not math.isfinite(np.vdot(x, x)):
                    return False
            return math.isfinite(self.scale)
        return True  # to ask would wait for the GPU in every call: there, what is hidden must be finite

    def lonely(self, rows: slice) -> int | None:
        """Which row of the tile sees its first key only, under a causal mask."""
        if self.causal_offset is None or not rows.start <= -self.causal_offset < rows.stop:
            return None
        return -self.causal_offset - rows.start

    def columns(self, rows: slice) -> int:
        """Keys from this one on are above the causal diagonal for all of `rows`."""
        if self.causal_offset is None:
            return self.n_k
        return min(max(rows.stop + self.causal_offset, 0), self.n_k)

    def seen(self, index: Index, rows: slice, c: int) -> Array | None:
        """Which pairs of a tile may attend: boolean, broadcastable to (..., r, c), or None for all."""
        seen = None if self.keep is None else self.keep_part(index, rows, c)
        if self.causal_offset is not None:
            i, j = self.xp.arange(rows.start, rows.stop)[:, None], self.xp.arange(c)
            below = j <= i + self.causal_offset  # (r, c)
            seen = below if seen is None else seen & below
        if seen is None:
            return None
        shape = np.broadcast_shapes(seen.shape, (rows.stop - rows.start, c))
        return self.xp.broadcast_to(seen, shape)

    def keep_part(self, index: Index, rows: slice, c: int) -> Array:
        """keep for a tile, an axis of length 1 where it is the same for all: (..., r | 1, c | 1)."""
        return part(self.keep, index)[..., _rows_of(self.keep, rows), :c].astype(bool, copy=False)

    def bias_part(self, index: Index, rows: slice, c: int) -> Array | None:
        if self.bias is None:
            return None
        return part(self.bias, index)[..., _rows_of(self.bias, rows), :c]

    def multiplier(self, index: Index | None, rows: slice, c: int) -> Array | None:
        """What dropout multiplies the weights of a tile with, (..., r, c); index None: of all heads."""
        if self.dropout is None:
            return None
        index = self.everything if index is None else index
        return self.dropout(index, rows, slice(0, c)).astype(self.dtype, copy=False)


def in_memory_order(x: Array) -> Array:
    """x with its axes ordered as they lie in memory: a view; contiguous where x is a transposed whole."""
    if x.flags.c_contiguous:
        return x
    return x.transpose(sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])))


def laid_out_like(x: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array whose axes lie in memory as x's do: heads that were cut out of rows (B, n, heads, d)
    go back into rows without a copy (four copies a layer, 1 of 40 ms a training step)."""
    if x.flags.c_contiguous or x.ndim != len(shape):
        return np.empty(shape, dtype)
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    back = sorted(range(x.ndim), key=order.__getitem__)
    return np.empty([shape[axis] for axis in order], dtype).transpose(back)


def _with_axes(x: Array, ndim: int) -> Array:
    return x if x.ndim == ndim else x.reshape((1,) * (ndim - x.ndim) + x.shape)


def _rows_of(x: Array, rows: slice) -> slice:
    return slice(None) if x.shape[-2] == 1 else rows


def part(x: Array, index: Index) -> Array:
    """The heads `index` of x (or None), where an axis of length 1 stands for all."""
    if x is None:
        return None
    return x[tuple(slice(None) if n == 1 else i for n, i in zip(x.shape, index, strict=False))]


def sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Sum x over the axes along which an array of `shape` was broadcast."""
    if x.shape == shape:
        return x
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1)
    return x.sum(axis=axes, keepdims=True).reshape(shape)


def lead_tiles(lead: tuple[int, ...], heads: int) -> list[Index]:
    """Cut the leading axes into tiles of at most `heads` heads (at least one)."""
    steps = []
    for n in reversed(lead):
        steps.append(min(n, max(heads, 1)))
        heads = heads // n if n else 0
    tiles: list[Index] = [()]
    for n, step in zip(lead, reversed(steps), strict=True):
        tiles = [(*tile, slice(i, min(i + step, n))) for tile in tiles for i in range(0, n, max(step, 1))]
    return tiles


def row_tiles(n: int, step: int) -> Iterator[slice]:
    """Row slices of at most `step`, the last rows first: under a causal mask these see the most keys."""
    starts = range(0, n, max(step, 1))
    return (slice(i, min(i + step, n)) for i in reversed(starts))


@lru_cache(maxsize=32)
def triangle(rows: int, columns: int, first: int, kind: str) -> np.ndarray:
    """0 where key `first + j` is visible to query i of a tile (key <= query), -inf above: (columns, rows)."""
    hidden = first + np.arange(columns)[:, None] > np.arange(rows)  # (c, r)
    made = np.where(hidden, -np.inf, 0).astype(kind)  # (c, r)
    made.flags.writeable = False
    return made
