"""NumPy meets Tensor: ``array * t``, ``np.float64(2) * t`` and ``np.exp(t)`` go to our operations.

NumPy asks the Tensor first (NEP 13 and NEP 18).  A ufunc that has an operation goes there; everything
else raises and names what to write instead: nothing becomes an array of objects, nothing loses its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import module_of
from .dtypes import plain
from .graph import Traced
from .ops import activation, choice, elementwise, index, loss, mask, matmul, norm, reduce, shape, softmax

_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: elementwise.add,
    np.subtract: elementwise.sub,
    np.multiply: elementwise.mul,
    np.true_divide: elementwise.div,
    np.power: elementwise.pow,
    np.negative: elementwise.neg,
    np.absolute: elementwise.abs,
    np.sign: elementwise.sign,
    np.exp: elementwise.exp,
    np.expm1: elementwise.expm1,
    np.log: elementwise.log,
    np.log1p: elementwise.log1p,
    np.sqrt: elementwise.sqrt,
    np.sin: elementwise.sin,
    np.cos: elementwise.cos,
    np.tanh: activation.tanh,
    np.maximum: choice.maximum,
    np.minimum: choice.minimum,
    np.square: lambda x: elementwise.mul(x, x),
    np.matmul: matmul.matmul,
}
_ROOMS = (activation, choice, elementwise, index, loss, mask, matmul, norm, reduce, shape, softmax)
_COMPARISONS = {
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.equal,
    np.not_equal,
    np.isnan,
    np.isinf,
    np.isfinite,
}


def array_ufunc(self: Traced, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's hook for ``np.exp(t)``, ``array * t`` and the like."""
    if method == "__call__" and not kwargs:
        if ufunc in _UFUNCS:
            return _UFUNCS[ufunc](*inputs)
        if ufunc in _COMPARISONS:
            return getattr(module_of(self._data), ufunc.__name__)(*[plain(x) for x in inputs])
    if "out" in kwargs:
        raise TypeError("a Tensor cannot be written to in place; write array + t.numpy(), or t = t + array")
    spelling = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    raise TypeError(
        f"{spelling} has no gradient here; write {spelling}(t.data) for plain numbers, or define it with ta.op"
    )


def array_function(self: Traced, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's hook for ``np.sum(t)``, ``np.concatenate([t, t])`` and the like: refused, with the spelling."""
    name = function.__name__
    ours = {"amax": "max", "amin": "min", "dot": "matmul"}.get(name, name)
    instead = f"ta.{ours}(...)" if any(hasattr(room, ours) for room in _ROOMS) else "an operation of tinygrad_attn"
    numpys = f"{function.__module__}.{name}".replace("numpy", "np", 1)  # np.linalg.norm is not np.norm
    raise TypeError(
        f"{numpys} would lose the graph of a Tensor; write {instead}, or {numpys}(t.data) for plain numbers"
    )
