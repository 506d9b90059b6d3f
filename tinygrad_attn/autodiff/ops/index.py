"""Picking entries and adding to picked entries: each is the other's rule.

    getitem          <->  add_at           x[index]
    take_along_axis  <->  scatter_add      one index per entry along an axis
    embedding        <->  embedding_sum    rows of a table

An entry picked twice receives both gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, module_of
from ..dtypes import narrowed, plain, wide_dtype
from ..operation import op


def _arrays_in(index: Any, module: Any) -> Any:
    """The index with Tensors replaced by their arrays (integers and booleans only), on x's device."""
    if isinstance(index, tuple):
        return tuple(_arrays_in(i, module) for i in index)
    index = plain(index)
    if module is not np and isinstance(index, (list, np.ndarray)):
        index = module.asarray(index if len(index) else np.zeros(0, int))
    if getattr(index, "dtype", None) is not None and index.dtype.kind not in "iub":
        raise IndexError(f"expected integers or booleans as an index, got dtype {index.dtype}; write index.astype(int)")
    return index


def _is_basic(index: Any) -> bool:
    """Only slices, integers, None and Ellipsis: nothing can be picked twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, (int, slice, np.integer)) for part in parts)


@op(vjps={"x": lambda g, x_shape, index: add_at(g, index, x_shape)})
def getitem(x: Array, index: Any) -> Array:
    """x[index], with every kind of NumPy index: slices, integers, arrays, booleans, None, Ellipsis.

    >>> import tinygrad_attn as ta
    >>> ta.Tensor([1.0, 2.0, 3.0])[[2, 2, 0]].numpy()
    array([3., 3., 1.], dtype=float32)
    """
    return x[_arrays_in(index, module_of(x))]


@op(vjps={"x": lambda g, index: getitem(g, index)})
def add_at(x: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with x added at `index`; places that are named twice receive both.

    >>> import tinygrad_attn as ta
    >>> ta.add_at([1.0, 10.0], [0, 0], (2,)).numpy()
    array([11.,  0.], dtype=float32)
    """
    module = module_of(x)
    index = _arrays_in(index, module)
    if _is_basic(index):
        out = module.zeros(shape, dtype=x.dtype)
        out[index] = x
        return out
    out = module.zeros(shape, dtype=wide_dtype(x.dtype))  # float16 stops counting at 2048
    module.add.at(out, index, x)
    return narrowed(out, x)


@op(vjps={"x": lambda g, x_shape, indices, axis: scatter_add(_zeros(g, x_shape), indices, g, axis)})
def take_along_axis(x: Array, indices: Array, axis: int = -1) -> Array:
    """out[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`; the other axes broadcast.

    >>> import tinygrad_attn as ta
    >>> ta.take_along_axis([[1.0, 2.0], [3.0, 4.0]], [[1], [0]]).numpy()
    array([[2.],
           [3.]], dtype=float32)
    """
    module = module_of(x)
    return module.take_along_axis(x, module.asarray(indices), axis=axis)


@op(vjps={"x": lambda g: g, "values": lambda g, indices, axis: take_along_axis(g, indices, axis)}, broadcasts=True)
def scatter_add(x: Array, indices: Array, values: Array, axis: int = -1) -> Array:
    """x with out[.., indices[.., i, ..], ..] += values[.., i, ..] along `axis`; repeats add up.

    >>> import tinygrad_attn as ta
    >>> ta.scatter_add([0.0, 0.0], [1, 1], [5.0, 7.0]).numpy()
    array([ 0., 12.], dtype=float32)
    """
    module = module_of(x)
    out, indices = x.astype(wide_dtype(x.dtype)), module.asarray(indices)
    grid = [module.arange(n).reshape([-1 if i == k else 1 for k in range(x.ndim)]) for i, n in enumerate(x.shape)]
    grid[axis] = indices
    module.add.at(out, tuple(grid), values)
    return narrowed(out, x)


@op(vjps={"W": lambda g, W_shape, idx: embedding_sum(g, idx, W_shape)})
def embedding(W: Array, idx: Array) -> Array:
    """Rows of the table W (n, d) picked by integers idx (...): (..., d).

    Errors: IndexError for an index outside [0, n) (on the CPU; on a GPU check where data is loaded).

    >>> import tinygrad_attn as ta
    >>> ta.embedding([[1.0, 2.0], [3.0, 4.0]], [1, 0, 1]).shape
    (3, 2)
    """
    module, idx = module_of(W), plain(idx)
    idx = module.asarray(idx)
    if idx.dtype.kind not in "iu":
        raise TypeError(f"expected integer indices, got {idx.dtype}")
    if module is np and idx.size and (idx.min() < 0 or idx.max() >= W.shape[0]):
        bad = idx[(idx < 0) | (idx >= W.shape[0])].flat[0]
        raise IndexError(f"index {bad} is outside a table of {W.shape[0]} rows")
    return W[idx]


@op(vjps={"x": lambda g, idx: embedding(g, idx)})
def embedding_sum(x: Array, idx: Array, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` (n, d) with each row of x (..., d) added to row idx: embedding's gradient.

    >>> import tinygrad_attn as ta
    >>> ta.embedding_sum([[1.0], [2.0]], [1, 1], (2, 1)).numpy()
    array([[0.],
           [3.]], dtype=float32)
    """
    module = module_of(x)
    out = module.zeros(shape, dtype=x.dtype)
    idx = module.asarray(plain(idx)).reshape(-1)
    rows = x.reshape(idx.size, shape[-1])
    if module is not np:
        module.add.at(out, idx, rows)
    elif idx.size:
        # sorted rows summed in runs: 0.1-0.5 ms where np.add.at takes 0.6-3.4 (1,024 to 2,048 rows of 64-384)
        order = idx.argsort(kind="stable")
        ordered = idx[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        out[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return out


def _zeros(like: Array, shape: tuple[int, ...]) -> Array:
    array = plain(like)
    return module_of(array).zeros(shape, dtype=array.dtype)
