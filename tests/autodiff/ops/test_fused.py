"""Every fused operation against its reference in primitives: value, gradient, and the gradient of its
gradient, which runs through the reference, against central differences of the *fused* first gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optable import ROWS, Row

import tinygrad_attn as ta
from tinygrad_attn.autodiff.derivatives import gradients  # zeros, not an error, for what does not matter (the bias)

FUSED = [row for row in ROWS if row.op not in ("split", "einsum") and getattr(ta, row.op).op.reference is not None]
every_fused = pytest.mark.parametrize("row", FUSED, ids=str)


def given(row: Row, scale: float = 1.0) -> list[Any]:
    arrays = row.make(np.random.default_rng(3))
    return [ta.Tensor(scale * a, True) if a.dtype.kind == "f" else a for a in arrays]


def reference(row: Row, inputs: list[Any]) -> ta.Tensor:
    fused = getattr(ta, row.op).op
    names = [n for n in fused.arguments if row.note != "bias" or n != "gain"]
    return fused.reference(**dict(zip(names, inputs)), **row.settings)


def leaves(inputs: list[Any]) -> list[ta.Tensor]:
    return [x for x in inputs if isinstance(x, ta.Tensor)]


def test_the_fused_operations_are_these() -> None:
    assert {row.op for row in FUSED} == {"gelu", "layer_norm", "cross_entropy"}


@every_fused
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_value_and_gradient(row: Row, scale: float) -> None:
    inputs = given(row, scale)
    fused, slow = row(*inputs), reference(row, inputs)
    np.testing.assert_allclose(fused.numpy(), slow.numpy(), rtol=1e-12, atol=1e-14)
    g = np.random.default_rng(4).standard_normal(fused.shape)
    for ours, right in zip(ta.grad(fused, leaves(inputs), g), ta.grad(slow, leaves(inputs), g)):
        np.testing.assert_allclose(ours.numpy(), right.numpy(), rtol=1e-11, atol=1e-13)


@every_fused
def test_gradient_of_gradient(row: Row) -> None:
    inputs = given(row)
    rng = np.random.default_rng(5)
    seed = ta.Tensor(rng.standard_normal(row(*inputs).shape), True)
    directions = [rng.standard_normal(x.shape) for x in leaves(inputs)]

    def along(fused: list[ta.Tensor]) -> float:
        """The fused first gradient, taken in fixed directions: one number."""
        return sum(float((g.numpy() * d).sum()) for g, d in zip(fused, directions))

    first = ta.grad(row(*inputs), leaves(inputs), seed, create_graph=True)
    total = sum(((g * d).sum() for g, d in zip(first, directions)), start=ta.Tensor(0.0, dtype=np.float64))
    moving = [*leaves(inputs), seed]
    for x, ours in zip(moving, gradients(total, moving)):
        right, values, eps = np.zeros(x.shape), x.numpy(), 1e-5
        for place in np.ndindex(*x.shape):
            for sign in (1, -1):
                moved = values.copy()
                moved[place] += sign * eps
                with ta.no_grad():
                    x.data = moved
                right[place] += sign * along(ta.grad(row(*inputs), leaves(inputs), seed)) / (2 * eps)
        x.data = values
        np.testing.assert_allclose(ours.numpy(), right, rtol=0, atol=1e-7)


def test_the_first_gradient_does_not_run_the_reference() -> None:
    for row in FUSED:
        inputs = given(row)
        out = row(*inputs)
        steps = list(ta.steps(out, np.ones(out.shape)))
        assert [step.node.op.name for step in steps if step.node.op.name != "leaf"] == [row.op]
