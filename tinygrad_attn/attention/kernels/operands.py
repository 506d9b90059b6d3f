"""One call of the kernels: its arrays, its shapes, and how it is cut into tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ...autodiff.arrays import Array, module_of
from ..call import Call
from ..masks import visible

Index = tuple[slice, ...]  # one slice per leading axis: which heads a tile holds


class Operands:
    """q, k, v, bias and mask with equally many axes, the floats of one dtype, and how attention was called."""

    def __init__(self, q: Array, k: Array, v: Array, bias: Any, call: Call) -> None:
        self.xp, dtype, mask = module_of(q), q.dtype, call.mask
        # float16 is computed in float32 throughout: more than its rules ask for, and the CPU has no half product.
        if bias is not None or k.dtype != dtype or v.dtype != dtype or dtype.char not in "fd":
            dtype = np.result_type(*(x.dtype for x in (q, k, v, bias) if x is not None), np.float32)
            q, k, v, bias = (None if x is None else x.astype(dtype, copy=False) for x in (q, k, v, bias))
        lead = q.shape[:-2]
        if k.shape[:-2] != lead or v.shape[:-2] != lead or mask is not None or bias is not None:
            lead = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v, mask, bias) if x is not None))
            q, k, v, mask, bias = (_with_axes(x, len(lead) + 2) for x in (q, k, v, mask, bias))
            q = self.xp.broadcast_to(q, lead + q.shape[-2:])  # then scores always have every leading axis
        self.q, self.k, self.v, self.bias, self.mask = q, k, v, bias, mask
        self.call, self.offset, self.scale = call, call.offset, call.scale
        self.dtype, self.lead, self.n_q, self.n_k = dtype, lead, q.shape[-2], k.shape[-2]
        self.size = math.prod(lead) * self.n_q * self.n_k  # how many scores there are

    def may_hold_nan(self, *arrays: Array) -> bool:
        """Could NaN or inf in `arrays` stand behind the mask, or appear there in a product of two of them?

        |a.b| <= |a| |b|: a finite sum of squares answers both questions in one pass.  Large finite
        numbers may raise a false alarm, which costs time, never correctness.  The bias may be -inf."""
        if (self.mask is None and self.offset is None) or self.xp is not np:
            return False  # to ask would wait for the GPU in every call: there, what is hidden must be finite
        if self.bias is not None and not np.maximum.reduce(self.bias, None, initial=-np.inf) < np.inf:
            return True
        # heads are a transposed view: vdot would copy it first, 3 of 40 ms a training step
        arrays = tuple([x if x.flags.c_contiguous else x.transpose(memory_order(x)) for x in arrays])
        return not math.isfinite(self.scale) or not all(math.isfinite(np.vdot(x, x)) for x in arrays)

    @property
    def may_be_empty(self) -> bool:
        """May there be queries that see nothing?"""
        return self.mask is not None or (self.offset is not None and self.offset < 0)

    def columns(self, rows: slice) -> int:
        """Keys from this one on are above the causal diagonal for all of `rows`."""
        return self.n_k if self.offset is None else min(max(rows.stop + self.offset, 0), self.n_k)


class Tile:
    """The queries `rows` of the heads `index`, and all keys that they may see: the first c.  r = rows, c = keys."""

    def __init__(self, x: Operands, index: Index | None = None, rows: slice | None = None) -> None:
        self.x, self.index, self.q, self.k, self.v = x, index, x.q, x.k, x.v
        self.rows, self.c = slice(0, x.n_q), x.n_k  # index None: everything, with all its keys
        if index is not None and rows is not None:
            self.rows, self.c = rows, x.columns(rows)
            self.q = part(x.q, index)[..., rows, :]  # (..., r, d_k)
            self.k, self.v = (part(a, index)[..., : self.c, :] for a in (x.k, x.v))  # (..., c, d_k) and (..., c, d_v)
        # (..., r, c)  what dropout multiplies the weights with, or None
        self.dropout = None if x.call.dropout is None else self._factors(x.call.dropout)

    def _factors(self, dropout: Any) -> Array:
        index = tuple([slice(0, n) for n in self.x.lead]) if self.index is None else self.index
        return dropout(index, self.rows, slice(0, self.c)).astype(self.x.dtype, copy=False)

    def of_queries(self, array: Array) -> Array:
        """The tile's part of an array like q with every leading axis: (..., r, d)."""
        return array[self.index][..., self.rows, :]

    def of_scores(self, array: Any) -> Any:
        """The tile's part of an array like the scores, or None: (..., r | 1, c | 1), where 1 stands for all."""
        if array is None:
            return None
        return part(array, self.index)[..., slice(None) if array.shape[-2] == 1 else self.rows, : self.c]

    @property
    def bias(self) -> Any:
        return self.of_scores(self.x.bias)

    @cached_property
    def visible(self) -> Any:
        """Which pairs may attend, (..., r, c), or None for all."""
        found = visible(self.of_scores(self.x.mask), self.x.offset, self.rows, self.c, self.x.xp)
        shape = (self.rows.stop - self.rows.start, self.c)
        return None if found is None else self.x.xp.broadcast_to(found, (*found.shape[:-2], *shape))

    @property
    def first_row(self) -> int | None:
        """Which row of the tile sees its first key only, under a causal mask: its weight is 1 whatever its score."""
        offset, rows = self.x.offset, self.rows
        return -offset - rows.start if offset is not None and rows.start <= -offset < rows.stop else None


def part(x: Any, index: Index | None) -> Any:
    """The heads `index` of x (or None), where an axis of length 1 stands for all; index None: all of it."""
    if x is None or index is None:
        return x
    return x[tuple([slice(None) if n == 1 else i for n, i in zip(x.shape, index)])]


def memory_order(x: Array) -> list[int]:
    """The axes of x as they lie in memory: in this order a transposed whole is contiguous again."""
    return sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))


def laid_out_like(x: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array whose axes lie in memory as x's do: heads that were cut out of rows (B, n, heads, d)
    go back into rows without a copy (four copies a layer, 1 of 40 ms a training step)."""
    if x.flags.c_contiguous or x.ndim != len(shape):
        return np.empty(shape, dtype)
    order = memory_order(x)
    return np.empty([shape[axis] for axis in order], dtype).transpose(np.argsort(order))


def _with_axes(x: Any, ndim: int) -> Any:
    return x if x is None or x.ndim == ndim else x.reshape((1,) * (ndim - x.ndim) + x.shape)


def head_tiles(lead: tuple[int, ...], heads: int) -> list[Index]:
    """Cut the leading axes into tiles of at most `heads` heads (at least one)."""
    tiles: list[Index] = [()]
    for axis, n in enumerate(lead):
        step = max(min(n, heads // max(math.prod(lead[axis + 1 :]), 1)), 1)
        tiles = [(*tile, slice(i, min(i + step, n))) for tile in tiles for i in range(0, n, step)]
    return tiles


def row_tiles(rows: slice, step: int) -> Iterator[slice]:
    """Row slices of at most `step`, the last rows first: under a causal mask these see the most keys."""
    starts = range(rows.start, rows.stop, max(step, 1))
    return (slice(i, min(i + step, rows.stop)) for i in reversed(starts))
