"""affine is x W + b: value, gradients, gradients of gradients, dtypes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.ops.affine import affine, affine_reference

SHAPES = [(4,), (3, 4), (2, 3, 4), (0, 4), (2, 0, 4)]


def given(shape: tuple[int, ...], dtype: str = "float64") -> list[ta.Tensor]:
    rng = np.random.default_rng(0)
    return [ta.Tensor(rng.standard_normal(s).astype(dtype), True) for s in (shape, (4, 5), (5,))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float32", 1e-5), ("float16", 1e-2)])
def test_value_and_gradients_are_those_of_the_reference(shape: tuple[int, ...], dtype: str, tolerance: float) -> None:
    ours, right = given(shape, dtype), given(shape, dtype)
    out, expected = affine(*ours), affine_reference(*right)
    assert out.dtype == dtype and out.shape == (*shape[:-1], 5)
    np.testing.assert_allclose(out.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)
    g = np.random.default_rng(1).standard_normal(out.shape)
    out.backward(g)
    expected.backward(g)
    for a, b in zip(ours, right):
        assert a.grad is not None and b.grad is not None and a.grad.dtype == dtype
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_gradients_of_gradients(shape: tuple[int, ...]) -> None:
    ta.testing.check_grads(lambda x, W, b: ta.tanh(affine(x, W, b)), *given(shape), order=2)


def test_of_a_transposed_input() -> None:
    x, W, b = given((3, 4))
    turned = ta.Tensor(np.arange(24.0).reshape(4, 3, 2), True)
    affine(turned.swapaxes(0, 2), W, b).sum().backward()
    assert turned.grad is not None and x.grad is None
    np.testing.assert_allclose(turned.grad.numpy(), np.broadcast_to(W.numpy().sum(1)[:, None, None], (4, 3, 2)))


def test_the_shapes_that_it_refuses() -> None:
    x, W, b = given((3, 4))
    with pytest.raises(
        ValueError, match=r"affine: expected W \(n, m\) and b \(m,\); got x \(3, 4\), W \(4, 5\), b \(4,\)"
    ):
        affine(x, W, ta.ones(4, dtype="float64"))
    with pytest.raises(ValueError, match=r"affine: .*expected equal inner lengths, 3 against 4"):
        affine(x[:, :3], W, b)
