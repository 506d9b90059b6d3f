"""Defining an operation with ta.op: rules by name, checked when it is defined."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.ops.elementwise import exp


def test_a_rule_serves_every_order() -> None:
    @ta.op(vjps={"x": lambda g, x: g * 3 * x**2})
    def cube(x):
        """x^3"""
        return x * x * x

    ta.testing.check_grads(cube, np.array([1.0, -2.0]), order=3)
    assert cube.__name__ == "cube" and cube.__doc__ == "x^3" and cube.op.name == "cube"
    assert type(cube(np.array([2.0]))) is np.ndarray  # on plain arrays it just computes


@pytest.mark.parametrize(
    "vjps",
    [
        {"x": lambda g, y: g * y, "y": lambda g, x: g * x},
        {"y": lambda g, x: g * x, "x": lambda g, y: g * y},
        (lambda g, y: g * y, lambda g, x: g * x),
    ],
)
def test_rules_by_name_or_in_order(vjps) -> None:
    @ta.op(vjps=vjps, broadcasts=True)
    def times(x, y):
        return x * y

    ta.testing.check_grads(times, np.array([[1.0], [2.0]]), np.array([3.0, 4.0, 5.0]))


def test_a_single_rule_needs_no_dictionary() -> None:
    @ta.op(vjps=lambda g: -g)
    def negative(x):
        return -x

    ta.testing.check_grads(negative, np.ones(2))


def test_what_a_rule_may_ask_for() -> None:
    seen = {}

    def rule(g, x, out, saved, x_shape, power):
        seen.update(x=x, out=out, saved=saved, shape=x_shape, power=power)
        return g * power * x ** (power - 1)

    @ta.op(vjps={"x": rule}, saves=True)
    def raised(x, power=2):
        return x**power, "saved"

    x = ta.Tensor([3.0], True)
    raised(x, power=3).backward()
    assert x.grad.item() == 27
    assert (
        seen["x"] is x._data
        and seen["out"].item() == 27
        and (seen["saved"], seen["shape"], seen["power"]) == ("saved", (1,), 3)
    )


def test_a_joint_rule_learns_which_gradients_are_needed() -> None:
    asked = []

    def rule(g, needs, x, y):
        asked.append(needs)
        return [g * y if needs[0] else None, g * x if needs[1] else None]

    @ta.op(joint=rule, traced=("x", "y"))
    def times(x, y):
        return x * y

    x, c = ta.Tensor([2.0], True), ta.Tensor([5.0])
    times(x, c).backward()
    times(c, x).backward()
    assert asked == [(True, False), (False, True)] and x.grad.item() == 10
    ta.testing.check_grads(times, np.ones(2), np.full(2, 3.0))


def test_a_reference_serves_the_second_order() -> None:
    @ta.op(joint=lambda g, needs, saved: [saved * g], traced=("x",), reference=lambda x: exp(x) * x, saves=True)
    def xexp(x):
        return np.exp(x) * x, np.exp(x) * (x + 1)

    ta.testing.check_grads(xexp, np.array([0.5, -1.0]))


def test_a_rule_may_give_none() -> None:
    @ta.op(vjps={"x": lambda g: None, "y": lambda g: g})
    def second(x, y):
        return y * 1

    x, y = ta.Tensor([1.0], True), ta.Tensor([2.0], True)
    second(x * 3, y).backward()
    assert x.grad is None and y.grad.item() == 1


class TestRefusedAtDefinition:
    def test_a_name_that_the_forward_lacks(self) -> None:
        with pytest.raises(TypeError, match="op f: a rule asks for 'z'; it may ask for out, saved, x, x_shape"):
            ta.op(vjps={"x": lambda g, z: g})(named_f)

    def test_a_rule_for_no_argument(self) -> None:
        with pytest.raises(TypeError, match="op f: a rule is given for 'w'; the forward has x"):
            ta.op(vjps={"w": lambda g: g})(named_f)

    def test_a_rule_without_g(self) -> None:
        with pytest.raises(TypeError, match=r"op f: a rule's first parameter must be g, got \(x\)"):
            ta.op(vjps={"x": lambda x: x})(named_f)


def named_f(x):
    return x


named_f.__name__ = "f"


class TestRefusedWhenCalled:
    def test_arguments_that_do_not_fit(self) -> None:
        x = ta.Tensor([1.0])
        with pytest.raises(TypeError, match="argument 'shape' is missing"):
            ta.reshape(x)
        with pytest.raises(TypeError, match="softmax: got axes; it takes x, axis"):
            ta.softmax(x, axes=0)
        with pytest.raises(TypeError, match=r"exp: got 2 values; it takes x|takes 1 positional"):
            ta.exp(x, 2)
