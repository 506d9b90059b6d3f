"""Kinks, ties, singular points, and branches that are not taken."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF = np.inf


def slope(f, *values, gradient=None):
    """The gradients of f at `values` (in float64), each as a list."""
    leaves = [ta.Tensor(np.array(v, np.float64), True) for v in values]
    out = f(*leaves)
    out.backward(np.ones(out.shape) if gradient is None else gradient)
    found = [x.grad.numpy().tolist() for x in leaves]
    return found[0] if len(found) == 1 else found


class TestKinks:
    def test_relu_and_abs_and_sign_at_0(self) -> None:
        assert slope(ta.relu, [-1.0, 0.0, 2.0]) == [0, 0, 1]
        assert slope(ta.abs, [-3.0, 0.0, 2.0]) == [-1, 0, 1]
        assert slope(ta.sign, [-3.0, 0.0, 2.0]) == [0, 0, 0]

    def test_clip_passes_the_gradient_at_its_bounds(self) -> None:
        assert slope(lambda x: ta.clip(x, 0.0, 1.0), [-0.1, 0.0, 0.5, 1.0, 1.1]) == [0, 1, 1, 1, 0]

    def test_ties_share_evenly(self) -> None:
        assert slope(ta.maximum, [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == [[0, 0.5, 1], [1, 0.5, 0]]
        assert slope(ta.minimum, [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == [[1, 0.5, 0], [0, 0.5, 1]]
        assert slope(lambda x: ta.maximum(x, x), [2.0]) == [1]

    def test_nan_wins_without_a_gradient(self) -> None:
        assert slope(ta.maximum, [np.nan, 1.0], [2.0, np.nan]) == [[0, 0], [0, 0]]


class TestSingularPoints:
    """The local derivative is 0 at the point and outside the domain; the value stays NaN or -inf."""

    @pytest.mark.parametrize(
        ("f", "at", "value"),
        [
            (ta.sqrt, [0.0, -1.0], [0, np.nan]),
            (ta.log, [0.0, -1.0], [-INF, np.nan]),
            (ta.log1p, [-1.0, -2.0], [-INF, np.nan]),
            (lambda x: x**0.5, [0.0, -1.0], [0, np.nan]),
            (lambda x: x**-1.0, [0.0], [INF]),
            (lambda x: ta.pow(x, np.full(2, 0.5)), [0.0, -1.0], [0, np.nan]),
        ],
    )
    def test_derivative_0(self, f, at, value) -> None:
        np.testing.assert_array_equal(f(ta.Tensor(at)).numpy(), value)
        assert slope(f, at) == [0] * len(at)

    def test_the_rule_stays_linear_in_g(self) -> None:
        """0 times the true slope, infinity, would be NaN."""
        assert slope(ta.sqrt, [0.0, 4.0], gradient=[0.0, 2.0]) == [0, 0.5]

    def test_whole_powers_are_regular_at_0_and_below(self) -> None:
        assert slope(lambda x: x**2, [0.0, -3.0]) == [0, -6]
        assert slope(lambda x: x**1, [0.0, -3.0]) == [1, 1]
        assert slope(lambda x: x**0, [0.0, -3.0]) == [0, 0]
        assert slope(lambda x: x**3, [-2.0]) == [12]
        assert slope(lambda x: x ** np.array([2.0]), [-3.0]) == [-6]

    def test_exponent_of_a_base_that_is_not_positive(self) -> None:
        assert slope(lambda y: 0.0**y, [2.0]) == [0]
        assert slope(lambda y: (-2.0) ** y, [2.0]) == [0]


class TestBranchesNotTaken:
    """An infinite gradient that reaches a switch does not become NaN on the side that is off."""

    @pytest.mark.parametrize(
        ("f", "at", "right"),
        [
            (lambda x: 1 / ta.relu(x), [-1.0, 2.0], [0, -0.25]),
            (lambda x: 1 / ta.clip(x, 0.0, 9.0), [-1.0, 2.0], [0, -0.25]),
            (lambda x: 1 / ta.maximum(x, 0.0), [-1.0, 2.0], [0, -0.25]),
            (lambda x: 1 / ta.minimum(-x, 0.0), [-1.0, 2.0], [0, 0.25]),
            (lambda x: 1 / ta.where(x > 0, x, 0.0), [-1.0, 2.0], [0, -0.25]),
            (lambda x: 1 / ta.masked_fill(x, x < 0, 0.0), [-1.0, 2.0], [0, -0.25]),
            (lambda x: ta.where(x > 0, ta.exp(1000 * x), 1.0), [-1.0], [0]),
            (lambda x: 1 / ta.max(x - 2.0), [1.0, 2.0], [0, -INF]),
        ],
    )
    def test_gradient_is_0_there(self, f, at, right) -> None:
        assert slope(f, at) == right


class TestTails:
    def test_sigmoid_is_exact_in_both(self) -> None:
        np.testing.assert_allclose(slope(ta.sigmoid, [-700.0, 700.0]), np.exp([-700.0, -700.0]), rtol=1e-12)
        assert ta.sigmoid([-1000.0, 1000.0]).numpy().tolist() == [0, 1]

    def test_expm1_and_log1p_keep_small_numbers(self) -> None:
        assert ta.expm1(ta.Tensor([1e-12], dtype=np.float64)).item() == pytest.approx(1e-12, rel=1e-11)
        assert ta.log1p(ta.Tensor([1e-12], dtype=np.float64)).item() == pytest.approx(1e-12, rel=1e-11)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_gelu_of_large_numbers(self, dtype) -> None:
        x = ta.Tensor([300.0, -300.0], True, dtype=dtype)
        y = ta.gelu(x)
        y.backward([1.0, 1.0])
        assert y.numpy().tolist() == [300, 0] and x.grad.numpy().tolist() == [1, 0]

    def test_gelu_writes_its_gradient_whatever_the_layout_of_g(self) -> None:
        x = ta.Tensor(np.arange(6.0).reshape(2, 3), True)
        (ta.gelu(x).T * np.arange(6.0).reshape(3, 2)).sum().backward()
        right = ta.Tensor(np.arange(6.0).reshape(2, 3), True)
        (ta.gelu(right) * np.arange(6.0).reshape(3, 2).T.copy()).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), right.grad.numpy())


class TestDtypes:
    def test_astype_widens_narrows_and_leaves_the_graph_for_integers(self) -> None:
        x = ta.Tensor([1.5], True)
        assert x.astype(np.float64).dtype == np.float64 and x.astype("float16").dtype == np.float16
        y = x.astype(np.float64)
        y.backward([2.0])
        assert x.grad.dtype == np.float32 and x.grad.item() == 2
        assert x.astype(int).numpy().tolist() == [1] and not x.astype(int).requires_grad

    def test_complex_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"astype: expected a real dtype, got complex128"):
            ta.astype([1.0], complex)

    def test_whole_numbers_divide_to_float32(self) -> None:
        assert (ta.Tensor([1, 2]) / ta.Tensor([2, 2])).dtype == np.float32
        assert (ta.Tensor([1, 2]) / 2).dtype == np.float32
        assert (ta.Tensor([1, 2]) * 0.5).dtype == np.float32
        assert (ta.Tensor([1, 2]) + 1).dtype == np.int64
