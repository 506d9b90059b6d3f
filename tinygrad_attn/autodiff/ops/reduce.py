"""Reductions.  Each rule first puts the reduced axes back as 1 (`_kept`), then broadcasts.

axis: None (all), an int, or a tuple of ints, negative ones from the end, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array, module_of
from ..dtypes import narrowed, plain, widened
from ..operation import op
from .choice import where
from .elementwise import _cast
from .shape import broadcast_to, expand_dims, flip, reshape, transpose
from .softmax import has_axis, softmax

Axis = int | tuple[int, ...] | None


def _axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim if ndim else a for a in (axis if isinstance(axis, tuple) else (axis,)))


def _kept(g: Array, x_shape: tuple[int, ...], axis: Axis) -> Array:
    """g with the reduced axes put back with length 1."""
    axes = _axes(axis, len(x_shape))
    return reshape(g, tuple(1 if i in axes else n for i, n in enumerate(x_shape)))


def _count(x_shape: tuple[int, ...], axis: Axis) -> int:
    """How many entries go into one result."""
    count = 1
    for a in _axes(axis, len(x_shape)):
        count *= x_shape[a]
    return count


@op(vjps={"x": lambda g, x_shape, axis: broadcast_to(_kept(g, x_shape, axis), x_shape)})
def sum(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum over `axis`; float16 counts in float32.

    >>> import tinygrad_attn as ta
    >>> ta.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).numpy()
    array([4., 6.], dtype=float32)
    """
    if x.dtype.char == "e":  # in float16 2048 + 1 is 2048
        return x.sum(axis=axis, keepdims=keepdims, dtype="float32").astype(x.dtype)
    return x.sum(axis=axis, keepdims=keepdims)


@op(
    vjps={
        "x": lambda g, x_shape, axis: broadcast_to(
            _kept(g * (1.0 / (_count(x_shape, axis) or 1)), x_shape, axis), x_shape
        )
    }
)
def mean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean over `axis`; NaN of no entries.

    >>> import tinygrad_attn as ta
    >>> ta.mean([[1.0, 2.0], [3.0, 4.0]], axis=1).numpy()
    array([1.5, 3.5], dtype=float32)
    """
    return x.mean(axis=axis, keepdims=keepdims)


@op(vjps={"x": lambda g, x, axis, ddof: _kept(g, x.shape, axis) * _centred(x, axis) * (2.0 * _share(x, axis, ddof))})
def var(x: Array, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Array:
    """The variance over `axis`: sum (x - mean)^2 / (n - ddof).

    >>> import tinygrad_attn as ta
    >>> ta.var([1.0, 2.0, 6.0]).item()
    4.6666665...
    """
    return narrowed(widened(x).var(axis=axis, keepdims=keepdims, ddof=ddof), x)


@op(vjps={"x": lambda g, x, out, axis, ddof: _std_rule(g, x, out, axis, ddof)})
def std(x: Array, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Array:
    """The standard deviation over `axis`; where it is 0 so is its gradient.

    >>> import tinygrad_attn as ta
    >>> ta.std([1.0, 3.0]).item()
    1.0
    """
    # by norm, which keeps the squares of tiny and huge entries
    spread = norm(_centred(widened(x), axis), axis, keepdims) / (1.0 / _share(x, axis, ddof)) ** 0.5
    return narrowed(module_of(x).asarray(spread), x)


def _std_rule(g: Array, x: Array, out: Array, axis: Axis, ddof: int) -> Array:
    spread = _kept(out, x.shape, axis)
    some = plain(spread) > 0
    slope = where(some, _centred(x, axis) / where(some, spread, 1.0), 0.0)  # a number near 1, whatever the unit of x
    return _kept(g, x.shape, axis) * slope * _share(x, axis, ddof)


def _centred(x: Array, axis: Axis) -> Array:
    return x - mean(x, axis, True)


def _share(x: Array, axis: Axis, ddof: int) -> float:
    """1 / (n - ddof); where nothing is left to vary, value and gradient are no numbers."""
    free = _count(x.shape, axis) - ddof
    return 1.0 / free if free > 0 else float("inf")


def _extreme(g: Array, x: Array, out: Array, axis: Axis) -> Array:
    """The gradient of max and min: shared evenly among the tied entries."""
    data = plain(x)
    winners = data == _kept(plain(out), data.shape, axis)
    ties = winners.sum(axis=axis, keepdims=True)
    return where(winners, _kept(g, data.shape, axis) / _cast(ties + (ties == 0), g), 0.0)


@op(vjps={"x": lambda g, x, out, axis: _extreme(g, x, out, axis)})
def max(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest entry over `axis`; tied entries share the gradient evenly.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([4.0, 4.0, 1.0], requires_grad=True)
    >>> ta.max(x).backward(); x.grad.numpy()
    array([0.5, 0.5, 0. ], dtype=float32)
    """
    return x.max(axis=axis, keepdims=keepdims)


@op(vjps={"x": lambda g, x, out, axis: _extreme(g, x, out, axis)})
def min(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest entry over `axis`; tied entries share the gradient evenly.

    >>> import tinygrad_attn as ta
    >>> ta.min([4.0, 4.0, 1.0]).item()
    1.0
    """
    return x.min(axis=axis, keepdims=keepdims)


@op(vjps={"x": lambda g, x, axis: _kept(g, x.shape, axis) * _product_of_others(x, axis)})
def prod(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The product over `axis`; exact gradients also where entries are 0.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> ta.prod(x).backward(); x.grad.numpy()
    array([0., 6., 0.], dtype=float32)
    """
    return x.prod(axis=axis, keepdims=keepdims)


def _product_of_others(x: Array, axis: Axis) -> Array:
    """For each entry the product of the other entries that were multiplied with it."""
    data, module = plain(x), module_of(plain(x))
    flat, back = _axes_last(x, axis)
    if (
        data is x
    ):  # an array: those before times those behind.  (The product over x would divide by 0, or by what underflowed.)
        one = module.ones((*flat.shape[:-1], 1), flat.dtype)
        before = module.cumprod(module.concatenate([one, flat], -1)[..., :-1], axis=-1)
        behind = module.cumprod(module.concatenate([one, flat[..., ::-1]], -1)[..., :-1], axis=-1)[..., ::-1]
        return back(before * behind)
    if (
        module is np
        and (np.abs(whole := data.prod(axis=axis)) >= np.finfo(data.dtype).tiny).all()
        and np.isfinite(whole).all()
    ):
        return prod(x, axis, True) / x
    # That is not differentiable at 0.  Copy the n entries to (n, n) and multiply each row without its
    # diagonal: n^2 memory, exact, differentiable again.
    diagonal = module.eye(flat.shape[-1], dtype=bool)
    return back(prod(where(diagonal, 1.0, expand_dims(flat, -2)), -1))


def _axes_last(x: Array, axis: Axis) -> tuple[Array, Callable[[Array], Array]]:
    """x with the axes of `axis` laid out along one last axis, and the way back."""
    axes = _axes(axis, x.ndim)
    order = tuple(i for i in range(x.ndim) if i not in axes) + axes
    there = tuple(x.shape[i] for i in order)
    flat = reshape(transpose(x, order), there[: x.ndim - len(axes)] + (_count(x.shape, axis),))
    return flat, lambda y: transpose(reshape(y, there), tuple(order.index(i) for i in range(x.ndim)))


def _softmax_over(x: Array, axis: Axis) -> Array:
    if isinstance(axis, int):
        return softmax(x, axis)
    flat, back = _axes_last(x, axis)
    return back(softmax(flat, -1))


@op(vjps={"x": lambda g, axis: flip(cumsum(flip(g, axis), axis), axis)})
def cumsum(x: Array, axis: int = -1) -> Array:
    """The running sum along `axis`; float16 counts in float32.

    >>> import tinygrad_attn as ta
    >>> ta.cumsum([1.0, 2.0, 3.0]).numpy()
    array([1., 3., 6.], dtype=float32)
    """
    has_axis(x, axis)
    if x.dtype.char == "e":
        return module_of(x).cumsum(x, axis=axis, dtype="float32").astype(x.dtype)
    return module_of(x).cumsum(x, axis=axis)


@op(vjps={"x": lambda g, x, axis: _kept(g, x.shape, axis) * _softmax_over(x, axis)})
@np.errstate(under="ignore")
def logsumexp(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """log(sum(exp(x))) over `axis` without overflow; -inf, with gradient 0, where all entries are -inf.

    >>> import tinygrad_attn as ta
    >>> ta.logsumexp([900.0, 900.0]).item()
    900.69...
    """
    module, wide = module_of(x), widened(x)
    if x.size == 0:
        return narrowed(wide.sum(axis=axis, keepdims=keepdims) - module.inf, x)
    top = wide.max(axis=axis, keepdims=True)
    top = module.where(module.isfinite(top), top, 0.0).astype(wide.dtype, copy=False)
    total = module.exp(wide - top).sum(axis=axis, keepdims=True)
    return _squeezed(narrowed(_log(total) + top, x), x, axis, keepdims)


def _log(total: Array) -> Array:
    """log without NumPy's warning at 0, where -inf is the right answer."""
    module = module_of(total)
    nothing = total == 0
    return module.where(nothing, -module.inf, module.log(module.where(nothing, 1.0, total))).astype(
        total.dtype, copy=False
    )


@op(
    vjps={
        "x": lambda g, x, out, axis: (
            _kept(g, x.shape, axis) * (x / _kept(where(plain(out) == 0, 1.0, out), x.shape, axis))
        )
    }
)
def norm(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The Euclidean norm over `axis`, sqrt(sum x^2), without overflow or underflow of the squares; where it is 0 so is
    its gradient.

    >>> import tinygrad_attn as ta
    >>> ta.norm([3.0, 4.0]).item()
    5.0
    """
    module, wide = module_of(x), widened(x)
    if x.size == 0:
        return narrowed(wide.sum(axis=axis, keepdims=keepdims), x)
    top = module.abs(wide).max(axis=axis, keepdims=True)
    top = module.where((top > 0) & module.isfinite(top), top, 1.0).astype(wide.dtype, copy=False)
    ratio = wide / top
    return narrowed(_squeezed(top * module.sqrt((ratio * ratio).sum(axis=axis, keepdims=True)), x, axis, keepdims), x)


def _squeezed(out: Array, x: Array, axis: Axis, keepdims: bool) -> Array:
    """`out`, in which the reduced axes have length 1, without them unless `keepdims`."""
    return out if keepdims else out.reshape([n for i, n in enumerate(x.shape) if i not in _axes(axis, x.ndim)])


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the largest entry is, as a plain integer array (no gradient)."""
    data = plain(x)
    return module_of(data).argmax(data, axis=axis, keepdims=keepdims)


__all__ = ["argmax", "cumsum", "logsumexp", "max", "mean", "min", "norm", "prod", "std", "sum", "var"]
