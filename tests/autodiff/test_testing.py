"""check_grads finds wrong rules: the mutations that a plain sum would miss, at both orders."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.ops.softmax import softmax as softmax_forward
from tinygrad_attn.autodiff.testing import check_grads

X = np.array([0.2, -1.0, 0.7])


def softmax_with(rule):
    return ta.op(vjps={"x": rule})(lambda x: softmax_forward(x))


def test_the_right_rule_passes() -> None:
    check_grads(softmax_with(lambda g, out: out * (g - (out * g).sum())), X)


@pytest.mark.parametrize(
    "rule",
    [
        lambda g, out: g - (out * g).sum(),  # p is missing
        lambda g, out: out * (g - g.mean()),
        lambda g, out: out * out * (g - (out * g).sum()),
        lambda g, out: g * 0.0,
        lambda g, out: g * out * (1.0 - out),
        lambda g, out: out * (g - (out * g).sum()) * np.nan,
    ],
)
def test_a_wrong_first_order_is_found(rule) -> None:
    with pytest.raises(AssertionError, match=r"order 1, argument 0, index \(\d,\): gradient .*, central difference"):
        check_grads(softmax_with(rule), X)


def test_a_wrong_second_order_is_found() -> None:
    """Right at first, but a constant where its own derivative is wanted."""
    square = ta.op(vjps={"x": lambda g, x: g * 2.0 * getattr(x, "_data", x)})(lambda x: x * x)
    check_grads(square, X, order=1)
    with pytest.raises(AssertionError, match="order 2, argument 0"):
        check_grads(square, X)


def test_the_argument_is_named() -> None:
    times = ta.op(vjps={"x": lambda g, y: g * y, "y": lambda g, y: g * y})(lambda x, y: x * y)
    with pytest.raises(AssertionError, match="order 1, argument 2, index"):
        check_grads(lambda i, x, y: times(x, y), 3, X, X + 1)


def test_sequences_of_outputs_integers_and_lists() -> None:
    check_grads(lambda x, i: [x[i], ta.exp(x)], X, np.array([0, 0]))
    check_grads(lambda x, i: x[i], [1.0, 2.0], [1, 1, 0])
    check_grads(lambda x: x * 2, 3.0)
    check_grads(lambda x: x * 2, ta.Tensor([1.0, 2.0]))
    check_grads(ta.exp, np.zeros((0, 2)))


def test_without_a_floating_argument_there_is_nothing_to_check() -> None:
    with pytest.raises(ValueError, match="expected at least one floating argument"):
        check_grads(lambda i: i, [1, 2])
