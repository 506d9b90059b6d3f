"""check_grads: are a function's gradients, and the gradients of its gradients, right?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .derivatives import gradients
from .graph import Traced
from .tensor import Tensor


def check_grads(f: Callable[..., Any], *args: Any, order: int = 2, eps: float = 1e-5, rtol: float = 1e-6) -> None:
    """Compare the derivatives of f(*args) up to `order` with central differences, in float64.

    f takes tensors and gives a tensor or a sequence of tensors.  Floating arguments are checked; integers
    and everything else are passed through.  The outputs are weighted by fixed random numbers (a plain sum
    hides errors: every row of a softmax sums to 1).  Keep the inputs away from kinks and ties.

    Errors: AssertionError naming order, argument, index, both numbers.

    >>> import tinygrad_attn as ta
    >>> check_grads(lambda x, y: ta.softmax(x @ y), np.eye(2), np.ones((2, 3)))
    """
    fixed = [_as_float64(a) for a in args]
    checked = [i for i, a in enumerate(fixed) if isinstance(a, Tensor)]
    if not checked:
        raise ValueError("check_grads: expected at least one floating argument, whose gradient it can check")

    def of_checked(*tensors: Tensor) -> Any:
        full = list(fixed)
        for i, tensor in zip(checked, tensors):
            full[i] = tensor
        return f(*full)

    _check(of_checked, [fixed[i] for i in checked], checked, 1, order, eps, rtol)


def _check(
    f: Callable[..., Any], inputs: list[Tensor], names: list[int], level: int, order: int, eps: float, rtol: float
) -> None:
    def weighted(*tensors: Tensor) -> Tensor:
        outs = f(*tensors)
        outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
        rng = np.random.default_rng(level)
        total = Tensor(0.0, dtype=np.float64, device=inputs[0].device)
        for out in outs:
            total = (
                total
                + (
                    out * Tensor(rng.uniform(0.5, 1.5, out.shape) * rng.choice([-1, 1], out.shape), device=out.device)
                ).sum()
            )
        return total

    found = gradients(weighted(*inputs), inputs)
    for k, (name, gradient) in enumerate(zip(names, found)):
        _compare(weighted, inputs, k, gradient, f"order {level}, argument {name}", eps, rtol)
    if level < order:

        def first_order(*tensors: Tensor) -> list[Tensor]:
            return gradients(weighted(*tensors), tensors, create_graph=True)

        _check(first_order, inputs, names, level + 1, order, eps, rtol)


def _compare(
    f: Callable[..., Tensor], inputs: list[Tensor], k: int, gradient: Tensor, what: str, eps: float, rtol: float
) -> None:
    values, right = inputs[k].numpy(), np.zeros(inputs[k].shape)
    for place in np.ndindex(*values.shape):
        ends = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign * eps
            ends.append(f(*inputs[:k], Tensor(moved, True, device=inputs[k].device), *inputs[k + 1 :]).item())
        right[place] = (ends[0] - ends[1]) / (2 * eps)
    ours = gradient.numpy()
    assert ours.shape == right.shape, f"{what}: the gradient has shape {ours.shape}, expected {right.shape}"
    assert gradient.dtype == inputs[k].dtype, f"{what}: the gradient has dtype {gradient.dtype}"
    error = np.abs(ours - right)
    bad = ~(error <= rtol * max(1.0, float(np.abs(right).max(initial=0.0))))
    if bad.any():
        place = np.unravel_index(np.nanargmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        at = tuple(int(i) for i in place)
        got, expected = float(ours[place]), float(right[place])
        ratio = f", {got / expected:.4g} times as large" if expected else ""
        raise AssertionError(f"{what}, index {at}: gradient {got:.8g}, central difference {expected:.8g}{ratio}")


def _as_float64(a: Any) -> Any:
    if isinstance(a, Traced):
        a = a._data
    if isinstance(a, float) or (isinstance(a, list) and np.asarray(a).dtype.kind == "f"):
        return Tensor(np.asarray(a, np.float64), True)
    return Tensor(a.astype(np.float64), True) if hasattr(a, "dtype") and a.dtype.kind == "f" else a
