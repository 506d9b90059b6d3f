"""jacobian, jvp and hvp against closed forms and against each other."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

A = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, -1.0]])


def test_jacobian_of_a_linear_map_is_its_matrix() -> None:
    np.testing.assert_array_equal(ta.jacobian(lambda x: A @ x, np.ones(2)).numpy(), A)


def test_jacobian_of_softmax() -> None:
    x = np.array([0.2, -1.0, 0.7])
    p = np.exp(x) / np.exp(x).sum()
    np.testing.assert_allclose(ta.jacobian(ta.softmax, x).numpy(), np.diag(p) - np.outer(p, p), rtol=1e-12)


def test_jacobian_has_the_axes_of_both() -> None:
    J = ta.jacobian(lambda x: ta.exp(x).sum(axis=0), np.zeros((2, 3)))
    assert J.shape == (3, 2, 3) and J.dtype == np.float64
    np.testing.assert_array_equal(J.numpy(), np.broadcast_to(np.eye(3)[:, None], (3, 2, 3)))
    assert ta.jacobian(lambda x: x * 2, 3.0).shape == ()
    assert ta.jacobian(lambda x: x[:0], np.ones(2)).shape == (0, 2)


def test_jvp_is_the_jacobian_times_v() -> None:
    def f(x):
        return ta.log_softmax(x @ A) * ta.norm(x)

    x, v = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    np.testing.assert_allclose(ta.jvp(f, x, v).numpy(), ta.jacobian(f, x).numpy() @ v, rtol=1e-12)


def test_hvp_is_the_hessian_times_v() -> None:
    def f(x):
        return ta.logsumexp(A @ x) + (x**3).sum()

    x, v = np.array([0.3, -0.2]), np.array([1.0, 2.0])
    eps = 1e-5
    numeric = (ta.jacobian(f, x + eps * v).numpy() - ta.jacobian(f, x - eps * v).numpy()) / (2 * eps)
    np.testing.assert_allclose(ta.hvp(f, x, v).numpy(), numeric, rtol=1e-7)


@pytest.mark.parametrize("f", [lambda x: ta.Tensor([1.0]), lambda x: x.detach().sum()])
def test_what_does_not_depend_gives_zeros_also_at_infinity(f) -> None:
    x, v = [np.inf, 1.0], [1.0, 1.0]
    assert not ta.jacobian(f, x).numpy().any() and not ta.jvp(f, x, v).numpy().any()
    assert ta.hvp(f, x, v).numpy().tolist() == [0, 0]


def test_the_second_derivative_of_a_linear_function_is_0() -> None:
    assert ta.hvp(lambda x: (x * 3.0).sum(), [np.inf, 1.0], [1.0, 1.0]).numpy().tolist() == [0, 0]


def test_they_record_also_under_no_grad() -> None:
    with ta.no_grad():
        assert ta.jacobian(lambda x: x * x, [1.0, 2.0]).numpy().tolist() == [[2, 0], [0, 4]]
        assert ta.jvp(lambda x: x * x, [1.0, 2.0], [1.0, 1.0]).numpy().tolist() == [2, 4]
        assert ta.hvp(lambda x: (x**3).sum(), [1.0, 2.0], [1.0, 1.0]).numpy().tolist() == [6, 12]


def test_x_itself_is_left_alone() -> None:
    x = ta.Tensor([1.0, 2.0], True)
    ta.jacobian(lambda x: x * x, x)
    assert x.grad is None


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(ValueError, match=r"jvp: expected v of shape \(2,\), got \(3,\)"):
        ta.jvp(ta.exp, [1.0, 2.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"hvp: expected v of shape \(2,\), got \(1,\)"):
        ta.hvp(ta.sum, [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"hvp: expected a function with one number as its result, got shape \(2,\)"):
        ta.hvp(ta.exp, [1.0, 2.0], [1.0, 1.0])
    with pytest.raises(TypeError, match="jacobian: expected a function that returns a Tensor, got float"):
        ta.jacobian(lambda x: x.sum().item(), [1.0])
