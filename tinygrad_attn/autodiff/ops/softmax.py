"""softmax and log_softmax: the two operations whose tiny gradients this project is about.

softmax's Jacobian is  dp_i/dx_j = p_i (delta_ij - p_j),  so the rule is
    dL/dx_i = p_i (g_i - sum_j p_j g_j).
That difference cancels when one p is nearly 1: in float32 with logits (20, 0) and g = (1, 0) it gives
(0, -2.06e-9) where (+2.06e-9, -2.06e-9) is right.  The rule does not change when a constant is taken
from all g, so the winner's own g is subtracted first; nothing is left to cancel.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, module_of
from ..dtypes import narrowed, plain, widened
from ..operation import op
from .elementwise import exp, expm1
from .index import take_along_axis


def _softmax_rule(g: Array, out: Array, axis: int) -> Array:
    p = plain(out)
    if p.size == 0:
        return g * out
    winner = module_of(p).argmax(p, axis=axis, keepdims=True)
    h = g - take_along_axis(g, winner, axis)  #                exact: h is 0 at the winner
    return out * (h - (out * h).sum(axis=axis, keepdims=True))  # p_i (h_i - sum_j p_j h_j)


@op(vjps={"x": _softmax_rule})
@np.errstate(under="ignore")  # e^-1000 is the 0 that is meant, also where the user made NumPy strict
def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x_i) / sum_j exp(x_j) along `axis`, without overflow; each slice sums to 1.

    A slice that is -inf everywhere, or empty, gives 0 with gradient 0.  float16 computes in float32.
    NaN or +inf in a slice gives NaN in that slice.

    >>> import tinygrad_attn as ta
    >>> ta.softmax([1.0, 1.0]).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    has_axis(x, axis)
    if x.size == 0:
        return x.copy()
    module, wide = module_of(x), widened(x)
    e = module.subtract(wide, _finite_top(wide, axis))
    module.exp(e, out=e)
    total = e.sum(axis=axis, keepdims=True)
    e /= total + (total == 0)  # nothing may be attended to: 0 / 1
    return narrowed(e, x)


def has_axis(x: Array, axis: int) -> None:
    """An error for an axis that x does not have; a 0-d array has none."""
    if not hasattr(axis, "__index__"):
        raise TypeError(f"expected one axis, a whole number, got {axis!r}")
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(axis, x.ndim)


def _finite_top(x: Array, axis: int) -> Array:
    """The largest entry of each slice, and 0 where that is -inf (exp(-inf - 0) is the 0 we want)."""
    module = module_of(x)
    top = x.max(axis=axis, keepdims=True)
    return module.where(top == -module.inf, 0.0, top).astype(x.dtype, copy=False)


def _log_softmax_rule(g: Array, out: Array, axis: int) -> Array:
    # dL/dx_i = g_i - p_i sum_j g_j = g_i (1 - p_i) - p_i sum_{j != i} g_j,  with 1 - p = -expm1(log p) exact
    p = exp(out)
    return -(g * expm1(out)) * (plain(p).sum(axis=axis, keepdims=True) > 0) - p * (g.sum(axis=axis, keepdims=True) - g)


@op(vjps={"x": _log_softmax_rule})
@np.errstate(under="ignore")
def log_softmax(x: Array, axis: int = -1) -> Array:
    """x_i - log sum_j exp(x_j) along `axis`, exact also where the result is close to 0.

    A slice that is -inf everywhere stays -inf, with gradient 0.

    >>> import tinygrad_attn as ta
    >>> ta.log_softmax([900.0, 0.0]).numpy()
    array([   0., -900.], dtype=float32)
    """
    has_axis(x, axis)
    if x.size == 0:
        return x.copy()
    module, wide = module_of(x), widened(x)
    shifted = wide - _finite_top(wide, axis)
    e = module.exp(shifted)
    empty = e.sum(axis=axis, keepdims=True) == 0
    # log of the sum as log1p of the sum of the others: the winner's own term is exactly 1
    winner = module.argmax(wide, axis=axis, keepdims=True)
    places = module.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    others = module.where(places == winner, e - 1.0, e).sum(axis=axis, keepdims=True)
    return narrowed(shifted - module.log1p(module.where(empty, 0.0, others)), x)
