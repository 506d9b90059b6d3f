"""layer_norm where the numbers are hard, and the shapes that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta


def test_a_constant_row_gives_the_bias_and_a_finite_gradient() -> None:
    x = ta.Tensor(np.full((1, 3), 5.0), True)
    out = ta.layer_norm(x, np.ones(3), np.array([1.0, 2.0, 3.0]))
    out.backward(np.array([[1.0, 2.0, 6.0]]))
    assert out.numpy().tolist() == [[1, 2, 3]]
    np.testing.assert_allclose(x.grad.numpy(), [[-632.45553, -316.22777, 948.68330]], rtol=2e-8)


def test_float16_takes_its_statistics_in_float32() -> None:
    x = np.linspace(-300, 300, 8)
    ours = ta.layer_norm(ta.Tensor(x, dtype=np.float16))
    assert ours.dtype == np.float16
    np.testing.assert_allclose(ours.numpy(), ta.layer_norm(ta.Tensor(x)).numpy(), atol=2e-3)


def test_only_what_wants_a_gradient_gets_one() -> None:
    gain = ta.Tensor(np.ones(3), True)
    ta.layer_norm(np.arange(6.0).reshape(2, 3), gain).sum().backward()
    assert gain.grad.shape == (3,)


def test_gain_and_bias_may_be_lists() -> None:
    out = ta.layer_norm(ta.Tensor([[1.0, 2.0, 3.0]]), [2.0, 2.0, 2.0], bias=[1.0, 1.0, 1.0])
    np.testing.assert_allclose(out.numpy(), [[1 - 2 * 1.5**0.5, 1, 1 + 2 * 1.5**0.5]], rtol=1e-4)


def test_the_shapes_of_gain_and_bias() -> None:
    with pytest.raises(ValueError, match=r"layer_norm: expected gain of shape \(3,\); got x \(2, 3\), gain \(2,\)"):
        ta.layer_norm(ta.ones((2, 3)), ta.ones(2))
    with pytest.raises(np.exceptions.AxisError, match="layer_norm: axis -1 is out of bounds"):
        ta.layer_norm(ta.Tensor(1.0))


def test_a_nearly_constant_row_is_normalised_by_its_own_differences() -> None:
    """100 + (0, 1, 2, ...)/1000: an error in the mean of one part in 10^7 would be as large as the differences."""
    for n in (4, 7, 64):
        x = (100.0 + np.arange(n) / 1000).astype(np.float32)
        wide = x.astype(np.float64)
        right = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
        np.testing.assert_allclose(ta.layer_norm(x[None]).numpy()[0], right, atol=2e-6)
