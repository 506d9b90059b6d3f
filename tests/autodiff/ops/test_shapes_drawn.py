"""Broadcasting, ranks and axes: Hypothesis draws the shapes, NumPy gives the value."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta

PAIRS = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3)
RNG = np.random.default_rng


def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of g over all the places that one entry of `shape` was copied to, the slow way."""
    out = np.zeros(shape)
    places = np.broadcast_to(np.arange(out.size).reshape(shape), g.shape)
    np.add.at(out.reshape(-1), places.ravel(), g.ravel())
    return out


@given(PAIRS)
def test_a_broadcast_operand_gets_the_sum_over_its_copies(shapes: Any) -> None:
    a, b = (RNG(i).uniform(0.5, 2.0, s) for i, s in enumerate(shapes.input_shapes))
    g = RNG(2).normal(size=shapes.result_shape)
    for f, da, db in [
        (np.add, g, g),
        (np.subtract, g, -g),
        (np.multiply, g * b, g * a),
        (np.divide, g / b, -g * a / b**2),
        (np.maximum, g * (a > b), g * (b > a)),
        (np.power, g * b * a ** (b - 1), g * a**b * np.log(a)),
    ]:
        x, y = ta.Tensor(a, True), ta.Tensor(b, True)
        out = f(x, y)  # NumPy's function on tensors is our operation
        np.testing.assert_allclose(out.numpy(), f(a, b), rtol=1e-14)
        out.backward(g)
        np.testing.assert_allclose(x.grad.numpy(), unbroadcast(da, a.shape), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(y.grad.numpy(), unbroadcast(db, b.shape), rtol=1e-12, atol=1e-14)


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3))
def test_where_of_three_shapes(shapes: Any) -> None:
    c, a, b = (RNG(i).normal(size=s) for i, s in enumerate(shapes.input_shapes))
    g = RNG(3).normal(size=shapes.result_shape)
    x, y = ta.Tensor(a, True), ta.Tensor(b, True)
    out = ta.where(c > 0, x, y)
    np.testing.assert_array_equal(out.numpy(), np.where(c > 0, a, b))
    out.backward(g)
    np.testing.assert_allclose(x.grad.numpy(), unbroadcast(g * (c > 0), a.shape), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(y.grad.numpy(), unbroadcast(g * (c <= 0), b.shape), rtol=1e-12, atol=1e-14)


@given(hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, min_side=0, max_side=3))
def test_matmul_of_every_pair_of_ranks(shapes: Any) -> None:
    a, b = (RNG(i).normal(size=s) for i, s in enumerate(shapes.input_shapes))
    x, y = ta.Tensor(a, True), ta.Tensor(b, True)
    out = x @ y
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-13, atol=1e-13)
    g = RNG(2).normal(size=out.shape)
    out.backward(g)
    A, B = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)  # both as matrices
    G = g.reshape(np.matmul(A, B).shape)
    for grad, right in ((x.grad, G @ B.swapaxes(-1, -2)), (y.grad, A.swapaxes(-1, -2) @ G)):
        matrix = (
            (1, *grad.shape)
            if grad is x.grad and a.ndim == 1
            else (*grad.shape, 1)
            if grad is y.grad and b.ndim == 1
            else grad.shape
        )
        np.testing.assert_allclose(grad.numpy(), unbroadcast(right, matrix).reshape(grad.shape), rtol=1e-12, atol=1e-13)


@st.composite
def axes(draw: Any) -> tuple[tuple[int, ...], Any]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=3))
    n = len(shape)
    some = st.lists(st.integers(0, n - 1), unique=True, max_size=n)
    signed = draw(some.flatmap(lambda xs: st.tuples(*[st.sampled_from([x, x - n]) for x in xs])))
    return shape, draw(st.sampled_from([None, signed, *signed[:1]]))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "max", "min", "prod"])
@given(axes(), st.booleans())
def test_reductions_over_any_axes(name: str, drawn: Any, keepdims: bool) -> None:
    shape, axis = drawn
    x = RNG(0).permutation(np.arange(1.0, np.prod(shape) + 1)).reshape(shape) / 4
    ours = getattr(ta, name)(ta.Tensor(x), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(ours.numpy(), getattr(np, name)(x, axis=axis, keepdims=keepdims), rtol=1e-13, atol=1e-14)
    if x.size <= 6 and not (name == "std" and (ours.numpy() == 0).any()):  # std has no slope at 0
        ta.testing.check_grads(lambda x: getattr(ta, name)(x, axis=axis, keepdims=keepdims), x, order=1)


@given(axes(), st.booleans())
def test_logsumexp_and_norm_over_any_axes(drawn: Any, keepdims: bool) -> None:
    shape, axis = drawn
    x = RNG(0).normal(size=shape)
    more = {"axis": axis, "keepdims": keepdims}
    np.testing.assert_allclose(ta.logsumexp(x, **more).numpy(), np.log(np.exp(x).sum(**more)), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ta.norm(x, **more).numpy(), np.sqrt((x * x).sum(**more)), rtol=1e-12)
    if x.size <= 6:
        ta.testing.check_grads(lambda x: ta.logsumexp(x, **more) * ta.norm(x, **more), x, order=1)


@given(st.data())
def test_moving_axes_and_back(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3))
    order = data.draw(st.permutations(range(len(shape))))
    order = [data.draw(st.sampled_from([i, i - len(shape)])) for i in order]
    x = ta.Tensor(RNG(0).normal(size=shape), True)
    g = RNG(1).normal(size=x.numpy().transpose(order).shape)
    moved = x.transpose(*order)
    np.testing.assert_array_equal(moved.numpy(), x.numpy().transpose(order))
    moved.backward(g)
    np.testing.assert_array_equal(x.grad.numpy().transpose(order), g)


@given(st.data())
def test_concatenate_and_split_undo_each_other(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = []
    for i, n in enumerate(lengths):
        part_shape = list(shape)
        part_shape[axis] = n
        parts.append(ta.Tensor(RNG(i).normal(size=part_shape), True))
    whole = ta.concatenate(parts, axis)
    np.testing.assert_array_equal(whole.numpy(), np.concatenate([p.numpy() for p in parts], axis))
    for again, part in zip(ta.split(whole, list(np.cumsum(lengths)[:-1]), axis), parts, strict=True):
        np.testing.assert_array_equal(again.numpy(), part.numpy())
    g = RNG(9).normal(size=whole.shape)
    whole.backward(g)
    np.testing.assert_array_equal(np.concatenate([p.grad.numpy() for p in parts], axis), g)
