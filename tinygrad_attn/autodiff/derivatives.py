"""Whole Jacobians, and products with second derivatives, from the same rules: a VJP, or a VJP of a VJP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import module_of
from .mode import enable_grad
from .tensor import Tensor
from .walk import gradients_at


def gradients(out: Tensor, inputs: Sequence[Tensor], create_graph: bool = False, seed: Any = None) -> list[Tensor]:
    """d(out)/d(input) times `seed` (None: ones), zeros where `out` does not depend on an input
    (``ta.grad`` raises there)."""
    found: dict[Any, Any] = {}
    if out._node is not None:
        if seed is None:
            seed = module_of(out._data).ones(out.shape, dtype=out.dtype)
        if create_graph and not isinstance(seed, Tensor):
            seed = Tensor(seed)
        wanted = {x._node for x in inputs if x._node is not None}
        found = gradients_at({out._node: seed}, wanted, True, create_graph)
    values = [found.get(x._node) for x in inputs]
    values = [module_of(x._data).zeros(x.shape, x.dtype) if v is None else v for v, x in zip(values, inputs)]
    return [value if isinstance(value, Tensor) else Tensor(value) for value in values]


def _recorded(f: Callable[[Tensor], Tensor], x: Tensor, name: str) -> Tensor:
    """f(x), recorded also inside ``no_grad``."""
    with enable_grad():
        y = f(x)
    if not isinstance(y, Tensor):
        raise TypeError(f"{name}: expected a function that returns a Tensor, got {type(y).__name__}")
    return y


def _point_and_direction(x: Any, v: Any, name: str) -> tuple[Tensor, Tensor]:
    """x as a leaf of its own, and v in its dtype, if it has x's shape."""
    x = Tensor(x, requires_grad=True)
    v = Tensor(v, dtype=x.dtype, device=x.device)
    if v.shape != x.shape:
        raise ValueError(f"{name}: expected v of shape {x.shape}, got {v.shape}")
    return x, v


def _dot(p: Tensor, v: Tensor) -> Tensor:
    with enable_grad():
        return (p * v).sum()


def jacobian(f: Callable[[Tensor], Tensor], x: Any) -> Tensor:
    """J[i, j] = d f(x)_i / d x_j, of shape (*f(x).shape, *x.shape); one backward pass per output entry.

    >>> jacobian(lambda x: x * x, [1.0, 2.0]).numpy()
    array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    x = Tensor(x, requires_grad=True)
    y = _recorded(f, x, "jacobian")
    module = module_of(x._data)
    out = module.zeros((y.size, *x.shape), dtype=x.dtype)
    for i in range(y.size if y.requires_grad else 0):
        seed = module.zeros(y.size, dtype=y.dtype)
        seed[i] = 1.0
        out[i] = gradients(y, [x], seed=seed.reshape(y.shape))[0]._data
    return Tensor(out.reshape((*y.shape, *x.shape)))


def jvp(f: Callable[[Tensor], Tensor], x: Any, v: Any) -> Tensor:
    """J v, the derivative of f at x in the direction v: the VJP of the VJP, which is linear in its g.

    >>> jvp(lambda x: x * x, [1.0, 2.0], [10.0, 1.0]).numpy()
    array([20.,  4.], dtype=float32)
    """
    x, v = _point_and_direction(x, v, "jvp")
    y = _recorded(f, x, "jvp")
    g = Tensor(np.zeros(y.shape), True, dtype=y.dtype, device=y.device)
    pulled = gradients(y, [x], create_graph=True, seed=g)[0]
    return gradients(_dot(pulled, v), [g])[0]


def hvp(f: Callable[[Tensor], Tensor], x: Any, v: Any) -> Tensor:
    """H v for a scalar f: the gradient of (gradient . v), without forming the Hessian H.

    >>> hvp(lambda x: (x * x * x).sum(), [1.0, 2.0], [1.0, 0.0]).numpy()
    array([6., 0.], dtype=float32)
    """
    x, v = _point_and_direction(x, v, "hvp")
    y = _recorded(f, x, "hvp")
    if y.size != 1:
        raise ValueError(f"hvp: expected a function with one number as its result, got shape {y.shape}")
    first = gradients(y, [x], create_graph=True)[0]
    return gradients(_dot(first, v), [x])[0]
