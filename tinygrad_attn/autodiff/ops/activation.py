"""Activations.  relu, sigmoid and tanh have a rule each; gelu is fused and carries its reference."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..arrays import Array, module_of
from ..dtypes import narrowed, plain, widened
from ..operation import op
from .choice import where
from .elementwise import exp

_C = math.sqrt(2.0 / math.pi)
_CUBE = 0.044715
_BLOCK = (
    1 << 15
)  # entries: the pieces of all arrays stay in the L2 cache (128 KB each; half of that took 1.2 times as long)


@op(vjps={"x": lambda g, out: where(plain(out) > 0, g, 0.0)})
def relu(x: Array) -> Array:
    """max(x, 0); the derivative at 0 is 0.

    >>> import tinygrad_attn as ta
    >>> ta.relu([-1.0, 2.0]).numpy()
    array([0., 2.], dtype=float32)
    """
    return module_of(x).maximum(x, 0)


def _tanh_slope(x: Array) -> Array:
    """1 - tanh^2 as 4e / (1 + e)^2 with e = exp(-2|x|): the difference would be 0 from |x| = 9 on (float32)."""
    e = exp(-2.0 * abs(x))
    return 4.0 * e / ((1.0 + e) * (1.0 + e))


@op(vjps={"x": lambda g, x: g * _tanh_slope(x)})
def tanh(x: Array) -> Array:
    """Hyperbolic tangent.

    >>> import tinygrad_attn as ta
    >>> ta.tanh([0.0, 1.0]).numpy().round(4)
    array([0.    , 0.7616], dtype=float32)
    """
    return module_of(x).tanh(x)


@op(vjps={"x": lambda g, x, out: g * out * sigmoid(-x)})
def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow; the rule uses 1 - sigmoid(x) = sigmoid(-x), exact in both tails.

    >>> import tinygrad_attn as ta
    >>> ta.sigmoid([0.0, 100.0]).numpy()
    array([0.5, 1. ], dtype=float32)
    """
    module = module_of(x)
    e = module.exp(-module.abs(x))
    return module.where(x >= 0, 1 / (1 + e), e / (1 + e))


# ---------------------------------------------------------------------------- gelu


def gelu_reference(x: Array) -> Array:
    """gelu in primitives."""
    return 0.5 * x * (1.0 + tanh(_C * (x + _CUBE * x * x * x)))


@np.errstate(over="ignore")
def _gelu_vjp(g: Array, needs: tuple[bool, ...], x: Array, saved: Array) -> list[Array]:
    """g * (1 + t) (0.5 + 0.5 x (1 - t) C (1 + 3 CUBE x^2)), with t = tanh(...) from the forward."""
    module = module_of(x)
    out = module.empty(g.shape, saved.dtype)
    for g_, x_, t, d in _blocks(g.astype(saved.dtype, copy=False), x.astype(saved.dtype, copy=False), saved, out):
        module.multiply(x_, x_, out=d)
        module.minimum(d, 1e6, out=d)  # beyond |x| = 1000 the next factors are 0: never 0 * inf
        d *= 1.5 * _C * _CUBE
        d += 0.5 * _C
        s = module.subtract(1.0, t)
        d *= s
        module.add(1.0, t, out=s)
        d *= s
        d *= x_  #                  (1 + t) (1 - t) 0.5 x C (1 + 3 CUBE x^2)
        s *= 0.5
        d += s
        d *= g_
    return [out]


@op(joint=_gelu_vjp, traced=("x",), reference=gelu_reference, saves=True)
@np.errstate(over="ignore")  # x^2 beyond 1e19: tanh is 1 there
def gelu(x: Array) -> Array:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh form.  float16 computes in float32.
    Source: Hendrycks and Gimpel 2016, Gaussian Error Linear Units, section 2.

    >>> import tinygrad_attn as ta
    >>> ta.gelu([0.0, 1.0]).numpy().round(4)
    array([0.    , 0.8412], dtype=float32)
    """
    module = module_of(x)
    wide = widened(x)
    out, tanh_ = module.empty(x.shape, wide.dtype), module.empty(x.shape, wide.dtype)
    for x_, t, o in _blocks(wide, tanh_, out):
        module.multiply(x_, x_, out=t)
        t *= _C * _CUBE
        t += _C
        t *= x_
        module.tanh(t, out=t)
        module.add(t, 1.0, out=o)
        o *= 0.5  # first: 2 x may overflow
        o *= x_
    return narrowed(out, x), tanh_


def _blocks(*arrays: Array) -> Iterator[list[Array]]:
    """The arrays in flat pieces that stay in the L2 cache together (on a GPU: whole).  Those that are
    written to must be contiguous: the pieces of others are copies."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    step = _BLOCK if isinstance(flat[0], np.ndarray) else max(size, 1)
    for start in range(0, size, step):
        yield [array[start : start + step] for array in flat]
