"""Random expressions of a dozen operations against PyTorch: shared parts, broadcasts, reductions, indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_attn as ta

pytestmark = pytest.mark.peers

# name -> (ours, theirs).  Every function keeps numbers moderate and (4, 4) matrices matrices.
ONE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tanh": (ta.tanh, torch.tanh),
    "sigmoid": (ta.sigmoid, torch.sigmoid),
    "sin": (ta.sin, torch.sin),
    "exp": (lambda x: ta.exp(-x * x), lambda x: torch.exp(-x * x)),
    "log": (lambda x: ta.log(x * x + 1.0), lambda x: torch.log(x * x + 1.0)),
    "sqrt": (lambda x: ta.sqrt(x * x + 0.5), lambda x: torch.sqrt(x * x + 0.5)),
    "gelu": (ta.gelu, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "softmax": (ta.softmax, lambda x: x.softmax(-1)),
    "log_softmax": (lambda x: ta.log_softmax(x, 0) / 4, lambda x: x.log_softmax(0) / 4),
    "layer_norm": (ta.layer_norm, lambda x: torch.nn.functional.layer_norm(x, (4,))),
    "transpose": (lambda x: x.T, lambda x: x.T),
    "rows": (lambda x: x[[3, 0, 0, 2]], lambda x: x[[3, 0, 0, 2]]),
    "rolled": (lambda x: ta.concatenate([x[1:], x[:1]]), lambda x: torch.concatenate([x[1:], x[:1]])),
    "centred": (lambda x: x - x.mean(axis=0), lambda x: x - x.mean(0)),
    "scaled": (lambda x: x / ta.norm(x, axis=1, keepdims=True), lambda x: x / x.norm(dim=1, keepdim=True)),
    "lower": (ta.tril, torch.tril),
    "cumsum": (lambda x: ta.cumsum(x, 0) / 4, lambda x: x.cumsum(0) / 4),
    "masked": (lambda x: ta.masked_fill(x, x > 0.5, 0.25), lambda x: x.masked_fill(x > 0.5, 0.25)),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {  # the same words in both
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1.0),
    "matmul": lambda x, y: x @ y / 4,
    "row": lambda x, y: x * y[1],
    "column": lambda x, y: x + y[:, 2:3],
    "total": lambda x, y: x * y.sum() / 16,
}


def program(seed: int) -> list[tuple[str, int, int]]:
    """A dozen steps, each from values made before: (name, first operand, second operand)."""
    rng = np.random.default_rng(seed)
    names = [*ONE, *TWO]
    return [(str(rng.choice(names)), int(rng.integers(2 + i)), int(rng.integers(2 + i))) for i in range(12)]


def run(steps: list[tuple[str, int, int]], leaves: list[Any], which: int) -> Any:
    values = list(leaves)
    for name, i, j in steps:
        values.append(ONE[name][which](values[i]) if name in ONE else TWO[name](values[i], values[j]))
    return sum((k + 1.0) * v.sum() for k, v in enumerate(values[2:])) + (values[-1] * values[-2]).sum()


def both(seed: int, dtype: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Value and gradients, ours and theirs."""
    arrays = [np.random.default_rng((seed, k)).normal(size=(4, 4)).astype(np.float32).astype(dtype) for k in range(2)]
    x = [ta.Tensor(a, True) for a in arrays]
    loss = run(program(seed), x, 0)
    loss.backward()
    ours = [loss.numpy(), *[np.zeros((4, 4)) if leaf.grad is None else leaf.grad.numpy() for leaf in x]]
    y = [torch.tensor(a, requires_grad=True) for a in arrays]
    value = run(program(seed), y, 1)
    value.backward()
    theirs = [value.detach().numpy(), *[np.zeros((4, 4)) if leaf.grad is None else leaf.grad.numpy() for leaf in y]]
    return ours, theirs


@pytest.mark.parametrize("seed", range(100))
def test_float64(seed: int) -> None:
    for got, right in zip(*both(seed, np.float64)):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-12 * np.abs(right).max())


@pytest.mark.parametrize("seed", range(100))
def test_float32(seed: int) -> None:
    _, exact = both(seed, np.float64)
    for got, peer, right in zip(*both(seed, np.float32), exact):
        assert np.abs(got - right).max() <= 4 * np.abs(peer - right).max() + 1e-6 * np.abs(right).max()
