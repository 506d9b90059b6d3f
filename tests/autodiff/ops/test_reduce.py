"""Reductions where the general rule could go wrong: ties, zeros in a product, constant rows, float16."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def gradient(f, x, dtype=np.float64):
    leaf = ta.Tensor(np.array(x, dtype), True)
    f(leaf).sum().backward()
    return leaf.grad.numpy().tolist()


def test_ties_share_the_gradient_evenly() -> None:
    assert gradient(ta.max, [4.0, 4.0, 1.0]) == [0.5, 0.5, 0]
    assert gradient(ta.min, [[1.0, 2.0], [1.0, 1.0]]) == [[1 / 3, 0], [1 / 3, 1 / 3]]
    assert gradient(lambda x: x.max(axis=1), [[1.0, 1.0], [0.0, 2.0]]) == [[0.5, 0.5], [0, 1]]


def test_nan_is_the_largest_and_takes_no_gradient() -> None:
    assert np.isnan(ta.max([np.nan, 1.0]).item()) and gradient(ta.max, [np.nan, 1.0]) == [0, 0]


@pytest.mark.parametrize(
    ("x", "right"),
    [([2.0, 3.0, 4.0], [12, 8, 6]), ([2.0, 0.0, 3.0], [0, 6, 0]), ([0.0, 0.0, 3.0], [0, 0, 0]), ([0.0], [1])],
)
def test_prod_with_zeros(x: list[float], right: list[float]) -> None:
    assert gradient(ta.prod, x) == right
    ta.testing.check_grads(ta.prod, np.array(x), order=2)


def test_prod_that_underflows_still_has_its_gradient() -> None:
    """1e-30 * 1e-30 is 0 in float32, its derivative 1e-30 is not."""
    x = ta.Tensor([1e-30, 1e-30], requires_grad=True)
    for create_graph in (False, True):
        found = ta.grad(ta.prod(x), x, create_graph=create_graph)
        np.testing.assert_allclose(found.numpy(), [1e-30, 1e-30], rtol=1e-6)


def test_prod_over_two_axes_with_a_zero() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 2))
    x[0, 1, 1] = x[1, 2, 0] = x[1, 0, 0] = 0.0
    ta.testing.check_grads(lambda x: ta.prod(x, axis=(0, 2)), x)


def test_std_and_norm_have_no_slope_at_0() -> None:
    assert gradient(ta.std, [2.0, 2.0]) == [0, 0]
    assert gradient(ta.norm, [0.0, 0.0]) == [0, 0]
    assert gradient(lambda x: ta.norm(x, axis=-1), [[0.0, 0.0], [6.0, 8.0]]) == [[0, 0], pytest.approx([0.6, 0.8])]


@pytest.mark.parametrize("size", [1e-40, 1e-25, 1e25])
def test_the_norm_of_tiny_and_huge_vectors(size: float) -> None:
    """Their squares are 0 or inf in float32."""
    x = ta.Tensor(np.array([3.0, 4.0]) * size, requires_grad=True, dtype="float32")
    y = ta.norm(x)
    y.backward()
    np.testing.assert_allclose(y.item(), 5 * size, rtol=1e-4)
    np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8], rtol=1e-4)


def test_the_square_of_a_norm_is_smooth_at_0() -> None:
    x = ta.Tensor(np.zeros(3), True)
    (ta.norm(x) ** 2).backward()
    assert x.grad.numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("f", [ta.var, ta.std, ta.norm])
def test_float16_takes_its_statistics_in_float32(f) -> None:
    x = np.full(4, 100.0) * [1, -1, 1, -1] * 2  # the squares do not fit float16's 65,504 when added
    assert f(ta.Tensor(x, dtype=np.float16)).item() == pytest.approx(f(ta.Tensor(x, dtype=np.float64)).item(), rel=1e-3)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ta.sum(x, 0),
        lambda x: ta.cumsum(x, 0)[-1],
        lambda x: ta.einsum("ij->j", x),
        lambda x: x.sum(axis=(0,)),
    ],
)
def test_float16_counts_beyond_2048(f) -> None:
    """In float16 2048 + 1 is 2048, and NumPy adds up the rows of a matrix one after the other."""
    x = ta.ones((10_000, 2), dtype="float16")
    assert f(x).numpy().tolist() == [10_000, 10_000] and f(x).dtype == np.float16


def test_the_float16_gradient_of_a_bias_is_its_count() -> None:
    bias = ta.zeros(2, dtype="float16", requires_grad=True)
    (ta.ones((10_000, 2), dtype="float16") + bias).backward(np.ones((10_000, 2)))
    assert bias.grad.numpy().tolist() == [10_000, 10_000]


def test_a_reduction_gives_an_array_never_a_scalar() -> None:
    x = ta.Tensor([[1.0, 2.0], [3.0, 4.0]], True)
    for f in (ta.sum, ta.mean, ta.max, ta.prod, ta.var, ta.norm, ta.logsumexp):
        out = f(x)
        out.backward()
        assert isinstance(out._data, np.ndarray) and out.shape == () and out.dtype == np.float32


def test_argmax_is_a_plain_integer_array() -> None:
    x = ta.Tensor([[1.0, 5.0], [7.0, 2.0]], True)
    assert isinstance(x.argmax(axis=1), np.ndarray) and x.argmax(axis=1).tolist() == [1, 0]
    assert x.argmax() == 2 and x.argmax(axis=0, keepdims=True).shape == (1, 2)


def test_the_largest_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"max: zero-size array .*got x \(2, 0\)"):
        ta.max(ta.Tensor(np.zeros((2, 0))), axis=1)
