"""What goes wrong in real autodiff code: inputs that broke other frameworks, with the right numbers.

Each test is one fault that people reported (wrong shape, counted once, NaN from a branch not taken ...)."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta

INF = np.inf


def leaf(values: Any) -> ta.Tensor:
    return ta.Tensor(np.array(values, np.float64), True)


def check(tensor: ta.Tensor, right: Any) -> None:
    """Gradient and its shape."""
    right = np.array(right, np.float64)
    assert tensor.grad.shape == right.shape
    np.testing.assert_allclose(tensor.grad.numpy(), right, rtol=1e-7, atol=1e-9)


class TestSoftmaxAndLogarithms:
    def test_log_of_zero_is_a_normal_value(self) -> None:
        x, c = leaf([-INF, -INF]), leaf(0.5)
        inner = ta.logsumexp(x)
        loss = ta.logsumexp(ta.stack([inner, c]))
        loss.backward()
        assert (inner.item(), loss.item()) == (-INF, 0.5)
        check(x, [0, 0])
        check(c, 1)

    def test_cross_entropy_where_softmax_underflows(self) -> None:
        z = leaf([0.0, 900.0, -900.0])
        loss = ta.cross_entropy(z, 2)
        loss.backward()
        assert loss.item() == 1800
        check(z, [0, 1, -1])
        z = leaf([0.0, 900.0, -900.0])
        (-ta.log_softmax(z)[2]).backward()
        check(z, [0, 1, -1])

    def test_a_weighted_sum_shows_what_a_plain_sum_hides(self) -> None:
        x = leaf([0.2, -1.0, 0.7])
        ta.softmax(x).sum().backward()
        check(x, [0, 0, 0])
        x = leaf([0.2, -1.0, 0.7])
        (ta.softmax(x) * np.array([1.0, 2.0, 4.0])).sum().backward()
        check(x, [-0.60300588, -0.07951922, 0.68252511])


class TestBroadcasting:
    def test_column_times_row(self) -> None:
        a, b = leaf([[2.0], [-1.0]]), leaf([0.5, 1.0, 2.0])
        (np.array([[1.0, 2, 3], [4, 5, 6]]) * (a * b)).sum().backward()
        check(a, [[8.5], [19]])
        check(b, [-2, -1, 0])

    def test_a_0d_factor(self) -> None:
        s = leaf(1.0)
        (np.array([[1.0, 1], [2, 4]]) * (s * np.array([[1.0, -2], [3, 0.5]]))).sum().backward()
        check(s, 7)

    def test_one_entry_against_a_row(self) -> None:
        u = leaf([1.0])
        (np.array([[3.0, 5.0]]) * (u * np.array([[7.0, 9.0]]))).sum().backward()
        check(u, [66])

    def test_a_mean_over_the_first_axis(self) -> None:
        t = leaf(np.zeros((2, 3)))
        (t.mean(0) * np.array([10.0, 20, 30])).sum().backward()
        check(t, [[5, 10, 15], [5, 10, 15]])

    def test_no_rows(self) -> None:
        X, b = leaf(np.zeros((0, 3))), leaf([1.0, 2, 3])
        (X + b).sum().backward()
        check(b, [0, 0, 0])
        check(X, np.zeros((0, 3)))


class TestMatmul:
    def test_matrix_times_vector(self) -> None:
        M, b = leaf([[1, 2, 0], [0, -1, 3], [2, 1, 1]]), leaf([1, -2, 0.5])
        (np.array([1.0, 10, 100]) @ (M @ b)).backward()
        check(M, [[1, -2, 0.5], [10, -20, 5], [100, -200, 50]])
        check(b, [201, 92, 130])

    def test_vector_times_matrix_and_vector(self) -> None:
        a, B = leaf([1, 2, 3]), leaf([[1, 0], [0, 2], [-1, 1]])
        ((a @ B) @ np.array([5.0, 7.0])).backward()
        check(a, [5, 14, 2])
        check(B, [[5, 7], [10, 14], [15, 21]])
        a, b = leaf([1, 2, 3]), leaf([4, 5, 6])
        (a @ b).backward()
        check(a, [4, 5, 6])
        check(b, [1, 2, 3])

    def test_one_matrix_for_a_batch(self) -> None:
        X, W = leaf(np.arange(12).reshape(2, 3, 2)), leaf([[1, 0, 2, -1], [0.5, 1, 0, 1]])
        weights = (np.arange(24.0).reshape(2, 3, 4) % 5) - 2
        (X @ W * weights).sum().backward()
        check(W, [[-20, 0, 10, 10], [-22, -1, 10, 11]])
        check(X, weights @ W.numpy().T)

    def test_two_batches_that_broadcast(self) -> None:
        P = leaf((np.arange(12).reshape(2, 1, 2, 3) % 7) - 3)
        Q = leaf((np.arange(18).reshape(3, 3, 2) % 5) - 2)
        weights = (np.arange(24.0).reshape(2, 3, 2, 2) % 3) - 1
        (P @ Q * weights).sum().backward()
        check(P, (weights @ Q.numpy().swapaxes(-1, -2)).sum(1, keepdims=True))
        check(Q, (P.numpy().swapaxes(-1, -2) @ weights).sum(0))


class TestRepeatedIndices:
    def test_each_repeat_counts(self) -> None:
        x = leaf([1, 2, 3, 4])
        (x[[0, 2, 2, 2]] * np.array([1.0, 10, 100, 1000])).sum().backward()
        check(x, [1, 0, 1110, 0])
        M = leaf([[1, 2], [3, 4]])
        (M[[1, 1, 0], [1, 1, 0]] * np.array([5.0, 7, 11])).sum().backward()
        check(M, [[11, 0], [0, 12]])
        x = leaf([0, 1])
        (x[[1, 1, 0]] * np.array([1.0, 2, 4])).sum().backward()
        check(x, [4, 3])

    def test_rows_of_a_table(self) -> None:
        for pick in (lambda E, tokens: E[tokens], ta.embedding):
            E = leaf(np.arange(8).reshape(4, 2))
            (pick(E, np.array([[2, 0], [2, 2]])) * np.arange(1.0, 9).reshape(2, 2, 2)).sum().backward()
            check(E, [[3, 4], [0, 0], [13, 16], [0, 0]])

    def test_of_several_picks_one_is_used(self) -> None:
        x = leaf([1, 2, 3, 4])
        x[[0, 2, 2, 2]][1].backward()
        check(x, [0, 0, 1, 0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
class TestEdges:
    def test_the_branch_not_taken_does_not_leak(self) -> None:
        x = leaf([-4, -1, 9])
        y = ta.where(x > 0, ta.sqrt(x), 2 * x)
        y.sum().backward()
        assert y.numpy().tolist() == [-8, -2, 3]
        check(x, [2, 2, 1 / 6])
        x = leaf([-3, 2])
        ta.where(x > 0, ta.log(x), x * x).sum().backward()
        check(x, [-6, 0.5])

    def test_a_norm_at_zero(self) -> None:
        for f in (lambda x: ta.norm(x) ** 2, lambda x: ta.exp(-(ta.norm(x) ** 2)), ta.norm):
            x = leaf(np.zeros(3))
            f(x).backward()
            check(x, [0, 0, 0])
        x = leaf([[0, 0], [3, 4]])
        ta.norm(x, axis=-1).sum().backward()
        check(x, [[0, 0], [0.6, 0.8]])

    def test_normalising_a_constant_row(self) -> None:
        right = [[-632.45553, -316.22777, 948.68330], [0.48495216, -0.60619144, 0.12123928]]
        weights = np.array([[1.0, 2, 6], [1, -1, 2]])

        def by_hand(x):
            return (x - x.mean(-1, keepdims=True)) / ta.sqrt(x.var(-1, keepdims=True) + 1e-5)

        for f in (by_hand, ta.layer_norm):
            x = leaf([[5, 5, 5], [1, 2, 6]])
            (f(x) * weights).sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), right, rtol=2e-7)
        x = leaf([1, 1])
        ta.std(x).backward()
        check(x, [0, 0])

    def test_ties_in_a_maximum(self) -> None:
        x = leaf([4, 4, 1])
        x.max().backward()
        check(x, [0.5, 0.5, 0])
        x = leaf([[1, 1], [0, 2]])
        x.max(1).sum().backward()
        check(x, [[0.5, 0.5], [0, 1]])


class TestSharedNodes:
    def test_an_inner_node_is_handed_on_once_and_whole(self) -> None:
        x = leaf(1.5)
        h = x * x
        (3 * h + h * h + x).backward()
        check(x, 23.5)
        a = leaf(1.0)
        b = a + a
        (b + b).backward()
        check(a, 4)

    def test_a_second_backward_does_not_count_leftovers(self) -> None:
        x = leaf(2.0)
        y = x * x * x
        y.backward(retain_graph=True)
        check(x, 12)
        x.grad = None
        y.backward(retain_graph=True)
        check(x, 12)
        y.backward()
        check(x, 24)

    def test_operations_that_keep_their_output_are_freed(self) -> None:
        x = leaf([0.1, 0.7])
        gc.collect()
        gc.disable()
        try:
            before = sum(type(o) is ta.Tensor for o in gc.get_objects())
            for _ in range(200):
                x.grad = None
                ta.exp(x).sum().backward()
                check(x, [1.10517092, 2.01375271])
                x.grad = None
                ta.tanh(x).sum().backward()
                check(x, [0.99006629, 0.63473959])
                x.grad = None
                ta.softmax(x)[0].backward()
                check(x, [0.22878424, -0.22878424])
                ta.sigmoid(x)
            x.grad = None
            assert sum(type(o) is ta.Tensor for o in gc.get_objects()) == before
        finally:
            gc.enable()


class TestDataChangedInBetween:
    def test_an_edit_raises_or_does_not_matter(self) -> None:
        x = leaf([3.0])
        y = (x * x).sum()
        with pytest.raises(ValueError, match="read-only"):
            x.data[...] = 5
        h = 2 * x
        t = (h * h).sum()
        with pytest.raises(ValueError, match="read-only"):
            h.data += x.data
        y.backward()
        t.backward()
        check(x, [6 + 24])

    def test_the_owner_of_an_array_may_change_it(self) -> None:
        array = np.array([3.0])
        x = ta.Tensor(array, True)
        c = np.array([4.0])
        y = (x * x * c).sum()
        array *= 0
        c *= 0
        y.backward()
        check(x, [24])


class TestDtypes:
    def test_whole_numbers_have_no_gradient(self) -> None:
        with pytest.raises(TypeError, match="only floats have gradients"):
            ta.Tensor([7], True)

    def test_float32_stays(self) -> None:
        x = ta.Tensor([1.0, 2.0, 3.0], True)
        loss = (x * 2).sum() / 10 + 1
        loss.backward()
        np.testing.assert_allclose(loss.item(), 2.2, rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), [0.2, 0.2, 0.2], rtol=1e-6)
        assert {loss.dtype, x.grad.dtype, (x * np.float64(2)).dtype, (x / np.array(2)).dtype} == {np.dtype(np.float32)}


class TestNumPyOnTheLeft:
    def test_reflected_operators_differentiate_the_right_function(self) -> None:
        for f, value, slope in [
            (lambda x: 2**x, 8, 8 * math.log(2)),
            (lambda x: x**2, 9, 6),
            (lambda x: 10 - x, 7, -1),
            (lambda x: 6 / x, 2, -2 / 3),
            (lambda x: x**x, 27, 27 * (math.log(3) + 1)),
            (lambda x: -x, -3, -1),
            (lambda x: 1 / x**2, 1 / 9, -2 / 27),
        ]:
            x = leaf(3.0)
            y = f(x)
            y.backward()
            assert y.item() == pytest.approx(value, rel=1e-14)
            check(x, slope)

    def test_reductions_and_numbers(self) -> None:
        mean = ta.Tensor([[1, 2], [3, 4]]).mean()
        assert mean.shape == () and float(mean) == 2.5 and type(float(mean)) is float and type(mean.item()) is float
        assert ta.Tensor([0.0, np.array(1.0)]).numpy().tolist() == [0, 1]
