"""Choosing between numbers, entry by entry: where, maximum, minimum, clip.  The gradient goes to what was chosen.

At ties of maximum and minimum each gets half of it; clip passes it inside and at its bounds."""

from __future__ import annotations

from typing import Any

from ..arrays import Array, module_of
from ..dtypes import plain
from ..operation import op


@op(
    vjps={
        "x": lambda g, condition: where(condition, g, 0.0),
        "y": lambda g, condition: where(condition, 0.0, g),
    },
    broadcasts=True,
)
def where(condition: Array, x: Array, y: Array) -> Array:
    """x where `condition` is True, else y; the gradient goes to the one that was taken.

    >>> import tinygrad_attn as ta
    >>> ta.where([True, False], [1.0, 2.0], 9.0).numpy()
    array([1., 9.], dtype=float32)
    """
    module = _module(x, y, condition)
    return module.where(module.asarray(condition), x, y)  # a mask or True from the host goes to the device


# ---------------------------------------------------------------------------- the larger, the smaller


def _of_the_larger(g: Array, x: Array, y: Array) -> Array:
    """x's share of g: all where x is larger, half at a tie, none elsewhere (and where one of the two is NaN)."""
    a, b = plain(x), plain(y)
    return where(a > b, g, where(a == b, 0.5 * g, 0.0))


@op(vjps={"x": lambda g, x, y: _of_the_larger(g, x, y), "y": lambda g, x, y: _of_the_larger(g, y, x)}, broadcasts=True)
def maximum(x: Array, y: Array) -> Array:
    """The larger of x and y, elementwise; at a tie each gets half of the gradient.

    >>> import tinygrad_attn as ta
    >>> ta.maximum([1.0, 5.0], 3.0).numpy()
    array([3., 5.], dtype=float32)
    """
    return _module(x, y).maximum(x, y)


@op(vjps={"x": lambda g, x, y: _of_the_larger(g, y, x), "y": lambda g, x, y: _of_the_larger(g, x, y)}, broadcasts=True)
def minimum(x: Array, y: Array) -> Array:
    """The smaller of x and y, elementwise; at a tie each gets half of the gradient.

    >>> import tinygrad_attn as ta
    >>> ta.minimum([1.0, 5.0], 3.0).numpy()
    array([1., 3.], dtype=float32)
    """
    return _module(x, y).minimum(x, y)


@op(vjps={"x": lambda g, x, low, high: where(_within(plain(x), low, high), g, 0.0)})
def clip(x: Array, low: float | None = None, high: float | None = None) -> Array:
    """x limited to [low, high]; the gradient passes inside and at the bounds.

    >>> import tinygrad_attn as ta
    >>> ta.clip([-2.0, 0.5, 7.0], 0.0, 1.0).numpy()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    return module_of(x).clip(x, low, high)


def _within(x: Array, low: float | None, high: float | None) -> Array:
    inside = x == x
    if low is not None:
        inside = inside & (x >= low)
    return inside & (x <= high) if high is not None else inside


def _module(*operands: Array) -> Any:
    """The module of the first operand that is an array: the others may be Python scalars."""
    return module_of(next((x for x in operands if hasattr(x, "dtype")), operands[0]))
