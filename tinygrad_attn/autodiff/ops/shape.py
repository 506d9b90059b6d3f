"""Operations that move numbers without changing them.  Each rule moves them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, module_of
from ..operation import op


@op(vjps={"x": lambda g, x_shape: reshape(g, x_shape)})
def reshape(x: Array, shape: int | Sequence[int]) -> Array:
    """The same entries in another shape; one length may be -1.

    >>> import tinygrad_attn as ta
    >>> ta.reshape([1.0, 2.0, 3.0, 4.0], (2, -1)).shape
    (2, 2)
    """
    return x.reshape(shape)


@op(vjps={"x": lambda g, axes: transpose(g, None if axes is None else _inverse_order(axes))})
def transpose(x: Array, axes: Sequence[int] | None = None) -> Array:
    """The axes in the order `axes` (None: reversed).

    >>> import tinygrad_attn as ta
    >>> ta.transpose(ta.zeros((2, 3, 4)), (0, 2, 1)).shape
    (2, 4, 3)
    """
    return x.transpose(axes)


def _inverse_order(axes: Sequence[int]) -> tuple[int, ...]:
    order = [axis % len(axes) for axis in axes]
    return tuple(order.index(i) for i in range(len(order)))


@op(vjps={"x": lambda g, axis1, axis2: swapaxes(g, axis1, axis2)})
def swapaxes(x: Array, axis1: int, axis2: int) -> Array:
    """x with two axes exchanged.

    >>> import tinygrad_attn as ta
    >>> ta.swapaxes(ta.zeros((2, 3, 4)), -1, -2).shape
    (2, 4, 3)
    """
    return x.swapaxes(axis1, axis2)


@op(vjps={"x": lambda g, x_shape: reshape(g, x_shape)})
def squeeze(x: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """x without axes of length 1 (all of them, or those of `axis`).

    >>> import tinygrad_attn as ta
    >>> ta.squeeze(ta.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    return x.squeeze(axis)


@op(vjps={"x": lambda g, x_shape: reshape(g, x_shape)})
def expand_dims(x: Array, axis: int | tuple[int, ...]) -> Array:
    """x with a new axis of length 1 at `axis`.

    >>> import tinygrad_attn as ta
    >>> ta.expand_dims(ta.zeros(3), -1).shape
    (3, 1)
    """
    return module_of(x).expand_dims(x, axis)


@op(vjps={"x": lambda g: g}, broadcasts=True)
def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """x repeated to `shape`; the gradient is summed back.

    >>> import tinygrad_attn as ta
    >>> ta.broadcast_to([1.0, 2.0], (3, 2)).shape
    (3, 2)
    """
    return module_of(x).broadcast_to(x, shape)


@op(vjps={"x": lambda g, axis: flip(g, axis)})
def flip(x: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """x in reverse order along `axis` (None: along all).

    >>> import tinygrad_attn as ta
    >>> ta.flip([1.0, 2.0]).numpy()
    array([2., 1.], dtype=float32)
    """
    return module_of(x).flip(x, axis)


@op(vjps={"x": lambda g, x_shape, pad_width: unpad(g, pad_width)})
def pad(x: Array, pad_width: Sequence[Sequence[int]] | int, value: float = 0.0) -> Array:
    """x with `value` around it; pad_width: (before, after) per axis, or one number for all.

    >>> import tinygrad_attn as ta
    >>> ta.pad([1.0, 2.0], ((1, 0),)).numpy()
    array([0., 1., 2.], dtype=float32)
    """
    widths = _widths(pad_width, x.ndim)
    return module_of(x).pad(x, widths, mode="constant", constant_values=value) if widths else x.copy()


@op(vjps={"x": lambda g, pad_width: pad(g, pad_width)})
def unpad(x: Array, pad_width: Sequence[Sequence[int]] | int) -> Array:
    """x without its border of `pad_width`: the inverse of ``pad``.

    >>> import tinygrad_attn as ta
    >>> ta.unpad([0.0, 1.0, 2.0], ((1, 0),)).numpy()
    array([1., 2.], dtype=float32)
    """
    widths = _widths(pad_width, x.ndim)
    return x[tuple(slice(before, n - after) for (before, after), n in zip(widths, x.shape))]


def _widths(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    whole = (int, np.integer)
    each = (pad_width,) if isinstance(pad_width, whole) else tuple(pad_width)
    if len(each) == 2 and all(
        isinstance(p, whole) for p in each
    ):  # one (before, after) for every axis, as np.pad has it
        each = (each,)
    pairs = tuple((int(p), int(p)) if isinstance(p, whole) else (int(p[0]), int(p[1])) for p in each)
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"expected a (before, after) pair of numbers >= 0 for each of {ndim} axes, got {pad_width}")
    return pairs


# ---------------------------------------------------------------------------- several tensors


def _concatenate_rule(g: Array, needs: tuple[bool, ...], saved: tuple[int, ...], axis: int) -> list[Array | None]:
    parts: list[Array | None] = []
    start = 0
    for needed, length in zip(needs, saved):
        index = (slice(None),) * (axis % g.ndim) + (slice(start, start + length),)
        parts.append(g[index] if needed else None)
        start += length
    return parts


@op(joint=_concatenate_rule, variadic=True, saves=True)
def concatenate(tensors: Sequence[Array], axis: int = 0) -> Array:
    """The tensors one after another along an existing axis.

    >>> import tinygrad_attn as ta
    >>> ta.concatenate([ta.zeros((2, 3)), ta.ones((1, 3))]).shape
    (3, 3)
    """
    if axis is None:
        raise TypeError("expected one axis, got None; write x.reshape(-1) of each first")
    out = module_of(tensors[0]).concatenate(tensors, axis=axis)
    return out, tuple(t.shape[axis] for t in tensors)


def _stack_rule(g: Array, needs: tuple[bool, ...], axis: int) -> list[Array | None]:
    before = (slice(None),) * (axis % g.ndim)
    return [g[(*before, i)] if needed else None for i, needed in enumerate(needs)]


@op(joint=_stack_rule, variadic=True)
def stack(tensors: Sequence[Array], axis: int = 0) -> Array:
    """Tensors of one shape side by side along a new axis.

    >>> import tinygrad_attn as ta
    >>> ta.stack([ta.zeros(3), ta.ones(3)], axis=1).shape
    (3, 2)
    """
    return module_of(tensors[0]).stack(tensors, axis=axis)


def split(x: Array, parts: int | Sequence[int], axis: int = -1) -> list[Array]:
    """x cut along `axis` into `parts` equal pieces, or before each of the given positions.

    >>> import tinygrad_attn as ta
    >>> [part.shape for part in ta.split(ta.zeros((2, 6)), 3)]
    [(2, 2), (2, 2), (2, 2)]
    """
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(f"split: axis {axis} is out of bounds; got x {tuple(x.shape)}")
    if not isinstance(parts, (int, np.integer, list, tuple)):
        raise TypeError(f"split: expected a number of parts or a list of positions, got {parts!r}")
    n = x.shape[axis]
    if isinstance(parts, (int, np.integer)):
        if parts < 1 or n % parts:
            raise ValueError(f"split: {n} entries along axis {axis} cannot be cut into {parts} equal parts")
        parts = [n // parts * i for i in range(1, parts)]
    edges = [0, *parts, n]
    before = (slice(None),) * (axis % x.ndim)
    return [x[(*before, slice(a, b))] for a, b in zip(edges, edges[1:])]
