"""Masks and dropout: what is hidden has gradient exactly 0."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta


def test_masked_fill_fills_where_true() -> None:
    x = ta.Tensor([1.0, 2.0], True)
    out = ta.masked_fill(x, [True, False], -np.inf)
    assert out.numpy().tolist() == [-np.inf, 2] and out.dtype == np.float32
    ta.softmax(out).sum().backward()
    assert x.grad.numpy()[0] == 0


def test_a_mask_is_boolean_or_whole_numbers() -> None:
    assert ta.masked_fill([1.0, 2.0], np.array([1, 0]), 5.0).numpy().tolist() == [5, 2]
    with pytest.raises(TypeError, match=r"masked_fill: expected a boolean mask, got float64; write mask != 0"):
        ta.masked_fill([1.0, 2.0], np.array([1.0, 0.0]), 5.0)


@pytest.mark.parametrize("f", [ta.tril, ta.triu])
def test_a_triangle_needs_a_matrix(f) -> None:
    with pytest.raises(ValueError, match=r"expected at least 2 axes.*got x \(3,\)"):
        f(ta.ones(3))


class TestDropout:
    @pytest.fixture(autouse=True)
    def seeded(self) -> None:
        ta.manual_seed(7)

    def test_kept_entries_are_scaled_and_get_the_same_factor_in_backward(self) -> None:
        x = ta.Tensor(np.ones(10_000), True)
        out = ta.dropout(x, 0.3)
        out.backward(np.full(10_000, 2.0))
        assert set(np.unique(out.numpy())) == {0.0, 1 / 0.7}
        np.testing.assert_array_equal(x.grad.numpy(), 2 * out.numpy())
        assert abs((out.numpy() > 0).mean() - 0.7) < 0.0184  # four standard deviations

    def test_the_same_seed_gives_the_same_pattern(self) -> None:
        first, second = ta.dropout(ta.ones(50), 0.5).numpy(), ta.dropout(ta.ones(50), 0.5).numpy()
        ta.manual_seed(7)
        np.testing.assert_array_equal(ta.dropout(ta.ones(50), 0.5).numpy(), first)
        assert (first != second).any()

    def test_numpys_global_state_is_neither_read_nor_changed(self) -> None:
        first = ta.dropout(ta.ones(50), 0.5).numpy()
        np.random.seed(3)
        before = np.random.get_state()[1].copy()
        ta.manual_seed(7)
        np.testing.assert_array_equal(ta.dropout(ta.ones(50), 0.5).numpy(), first)
        ta.randn(3)
        assert (np.random.get_state()[1] == before).all()

    def test_rate_0_and_evaluation_change_nothing_and_rate_1_gives_0(self) -> None:
        x = ta.Tensor([1.0, 2.0], True)
        assert ta.dropout(x, 0.0) is x and ta.dropout(x, 0.5, training=False) is x
        out = ta.dropout(x, 1.0)
        out.sum().backward()
        assert out.numpy().tolist() == [0, 0] and x.grad.numpy().tolist() == [0, 0]

    @pytest.mark.parametrize("rate", [-0.1, 1.5])
    def test_a_rate_is_a_probability(self, rate: float) -> None:
        with pytest.raises(ValueError, match=f"dropout: expected a rate between 0 and 1, got {rate}"):
            ta.dropout(ta.ones(2), rate)

    @pytest.mark.parametrize("dtype", [np.float16, np.float64])
    def test_dtype_stays(self, dtype) -> None:
        assert ta.dropout(ta.ones(4, dtype=dtype), 0.5).dtype == dtype

    def test_gradient_of_gradient(self) -> None:
        def f(x):
            ta.manual_seed(3)
            return ta.dropout(x * x, 0.4)

        ta.testing.check_grads(f, np.arange(1.0, 7.0))
