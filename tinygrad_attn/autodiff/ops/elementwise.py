"""Elementwise operations.  The easy ones first: one line per rule, the rule reads as the formula.

g is dL/d(out).  What a rule names is what it keeps: ``lambda g, out: g * out`` keeps the output.
At kinks: 0 at abs(0) and sign.
At singular points (sqrt, log and powers at 0) and outside the domain the local derivative is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, module_of
from ..dtypes import plain
from ..operation import op
from .choice import where

# ---------------------------------------------------------------------------- arithmetic


@op(vjps={"x": lambda g: g, "y": lambda g: g}, broadcasts=True)
def add(x: Array, y: Array) -> Array:
    """x + y, elementwise with broadcasting.

    >>> import tinygrad_attn as ta
    >>> ta.add([1.0, 2.0], 3.0).numpy()
    array([4., 5.], dtype=float32)
    """
    return x + y


@op(vjps={"x": lambda g: g, "y": lambda g: -g}, broadcasts=True)
def sub(x: Array, y: Array) -> Array:
    """x - y, elementwise with broadcasting.

    >>> import tinygrad_attn as ta
    >>> ta.sub([1.0, 2.0], 3.0).numpy()
    array([-2., -1.], dtype=float32)
    """
    return x - y


@op(vjps={"x": lambda g, y: g * y, "y": lambda g, x: g * x}, broadcasts=True)
def mul(x: Array, y: Array) -> Array:
    """x * y, elementwise with broadcasting.

    >>> import tinygrad_attn as ta
    >>> ta.mul([1.0, 2.0], 3.0).numpy()
    array([3., 6.], dtype=float32)
    """
    return x * y


@op(vjps={"x": lambda g, y: g / y, "y": lambda g, y, out: -g * out / y}, broadcasts=True)
def div(x: Array, y: Array) -> Array:
    """x / y, elementwise with broadcasting; integers give float32.

    >>> import tinygrad_attn as ta
    >>> ta.div([1.0, 3.0], 2.0).numpy()
    array([0.5, 1.5], dtype=float32)
    """
    return x / y


@op(vjps={"x": lambda g: -g})
def neg(x: Array) -> Array:
    """-x.

    >>> import tinygrad_attn as ta
    >>> ta.neg([1.0, -2.0]).numpy()
    array([-1.,  2.], dtype=float32)
    """
    return -x


@op(vjps={"x": lambda g, x, y: _pow_base(g, x, y), "y": lambda g, x, out: _pow_exponent(g, x, out)}, broadcasts=True)
def pow(x: Array, y: Array) -> Array:
    """x ** y, elementwise with broadcasting; NaN for a negative x and a fractional y.

    d/dx = y x^(y-1),  d/dy = x^y log x;  0 where x is a singular point (x = 0 and y < 1).

    >>> import tinygrad_attn as ta
    >>> ta.pow([1.0, 3.0], 2.0).numpy()
    array([1., 9.], dtype=float32)
    """
    return x**y


def _pow_base(g: Array, x: Array, y: Array) -> Array:
    if isinstance(y, (int, float)) and y >= 1 and float(y).is_integer():  # x**2, x**3: regular everywhere
        return g * (y * x ** (y - 1)) if y != 1 else g
    base, power = plain(x), plain(y)
    regular = (base > 0) | ((base == 0) & (power >= 1)) | ((base < 0) & (power == power // 1))
    return where(regular, g * y * where(regular, x, 1.0) ** (y - 1.0), 0.0)


def _pow_exponent(g: Array, x: Array, out: Array) -> Array:
    positive = plain(x) > 0
    return g * where(positive, out, 0.0) * log(where(positive, x, 1.0))


# ---------------------------------------------------------------------------- functions of one argument


@op(vjps={"x": lambda g, x: g * sign(x)})
def abs(x: Array) -> Array:
    """|x|; the derivative at 0 is 0.

    >>> import tinygrad_attn as ta
    >>> ta.abs([1.0, -2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return module_of(x).abs(x)


@op(vjps={"x": lambda g: g * 0.0})
def sign(x: Array) -> Array:
    """-1, 0 or 1; the derivative is 0 everywhere.

    >>> import tinygrad_attn as ta
    >>> ta.sign([3.0, -2.0]).numpy()
    array([ 1., -1.], dtype=float32)
    """
    return module_of(x).sign(x)


@op(vjps={"x": lambda g, out: g * out})
def exp(x: Array) -> Array:
    """e^x.

    >>> import tinygrad_attn as ta
    >>> ta.exp([0.0, 1.0]).numpy().round(4)
    array([1.    , 2.7183], dtype=float32)
    """
    return module_of(x).exp(x)


@op(vjps={"x": lambda g, out: g * (out + 1.0)})
def expm1(x: Array) -> Array:
    """e^x - 1, exact for small x.

    >>> import tinygrad_attn as ta
    >>> ta.expm1([0.0, 1.0]).numpy().round(4)
    array([0.    , 1.7183], dtype=float32)
    """
    return module_of(x).expm1(x)


@op(vjps={"x": lambda g, x: g * _inverse(x, plain(x) > 0)})
def log(x: Array) -> Array:
    """Natural logarithm; the derivative is 1/x, and 0 where x <= 0.

    >>> import tinygrad_attn as ta
    >>> ta.log([1.0, 10.0]).numpy().round(4)
    array([0.    , 2.3026], dtype=float32)
    """
    return module_of(x).log(x)


@op(vjps={"x": lambda g, x: g * _inverse(1.0 + x, plain(x) > -1)})
def log1p(x: Array) -> Array:
    """log(1 + x), exact for small x.

    >>> import tinygrad_attn as ta
    >>> ta.log1p([0.0, 1.0]).numpy().round(4)
    array([0.    , 0.6931], dtype=float32)
    """
    return module_of(x).log1p(x)


@op(vjps={"x": lambda g, out: g * (0.5 * _inverse(out, plain(out) > 0))})
def sqrt(x: Array) -> Array:
    """Square root; the derivative is 1/(2 sqrt x), and 0 where x <= 0.

    >>> import tinygrad_attn as ta
    >>> ta.sqrt([4.0, 9.0]).numpy()
    array([2., 3.], dtype=float32)
    """
    return module_of(x).sqrt(x)


def _inverse(x: Array, regular: Array) -> Array:
    """1/x where `regular`, else 0, without ever dividing by the others."""
    return where(regular, 1.0 / where(regular, x, 1.0), 0.0)


@op(vjps={"x": lambda g, x: g * cos(x)})
def sin(x: Array) -> Array:
    """Sine of x in radians.

    >>> import tinygrad_attn as ta
    >>> ta.sin([0.0, 1.0]).numpy().round(4)
    array([0.    , 0.8415], dtype=float32)
    """
    return module_of(x).sin(x)


@op(vjps={"x": lambda g, x: -g * sin(x)})
def cos(x: Array) -> Array:
    """Cosine of x in radians.

    >>> import tinygrad_attn as ta
    >>> ta.cos([0.0, 1.0]).numpy().round(4)
    array([1.    , 0.5403], dtype=float32)
    """
    return module_of(x).cos(x)


@op(vjps={"x": lambda g: g})
def astype(x: Array, dtype: Any) -> Array:
    """x in another dtype; the gradient comes back in x's own.

    >>> import tinygrad_attn as ta
    >>> ta.astype([1.0], "float64").dtype
    dtype('float64')
    """
    wanted = np.dtype(dtype)
    if wanted.kind not in "biuf" or wanted.itemsize > 8:
        raise TypeError(f"expected a real dtype, got {wanted}; a Tensor holds at most 64 bits")
    return x.astype(wanted)


def _cast(plain_array: Array, g: Array) -> Array:
    """Comparisons and counts as numbers of g's dtype."""
    return plain_array.astype(g.dtype)
