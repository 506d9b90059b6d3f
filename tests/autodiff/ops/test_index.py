"""Indexing with everything NumPy allows: Hypothesis draws the shape and the index."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)


@st.composite
def basic(draw: Any) -> tuple[tuple[int, ...], Any]:
    """Integers, slices with steps of both signs, None, Ellipsis."""
    shape = draw(SHAPES)
    return shape, draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))


@st.composite
def mixed(draw: Any) -> tuple[tuple[int, ...], Any]:
    """Per axis an integer array (repeats, negative), a boolean array, a slice or an integer; None and
    Ellipsis among them."""
    shape = draw(SHAPES)
    length = draw(st.integers(0, 4))
    parts: list[Any] = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        kind = draw(st.sampled_from(["array", "column", "list", "mask", "slice", "int"]))
        picks = draw(st.lists(st.integers(-n, n - 1), min_size=length, max_size=length))
        if kind == "array":
            parts.append(np.array(picks, int))
        elif kind == "column":
            parts.append(np.array(picks, int)[:, None])
        elif kind == "list" and picks:
            parts.append(picks)
        elif kind == "mask" and 0 < length <= n:
            on = draw(st.lists(st.integers(0, n - 1), min_size=length, max_size=length, unique=True))
            parts.append(np.isin(np.arange(n), on))
        elif kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        else:
            parts.append(slice(None, None, draw(st.sampled_from([1, 2, -1, -2]))))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), None)
    if draw(st.booleans()):
        parts.append(Ellipsis)
    return shape, tuple(parts)


@st.composite
def whole_mask(draw: Any) -> tuple[tuple[int, ...], Any]:
    """A boolean array over the first axes."""
    shape = draw(SHAPES)
    return shape, draw(hnp.arrays(bool, shape[: draw(st.integers(1, len(shape)))]))


@given(st.one_of(basic(), mixed(), whole_mask()))
def test_value_and_gradient_of_any_index(drawn: tuple[tuple[int, ...], Any]) -> None:
    """The gradient adds each picked entry's weight to the place it came from."""
    shape, index = drawn
    x = ta.Tensor(np.arange(np.prod(shape), dtype=float).reshape(shape), True)
    y, places = x[index], np.arange(x.size).reshape(shape)[index]
    np.testing.assert_array_equal(y.numpy(), x.numpy()[index])
    g = np.arange(1.0, y.size + 1).reshape(y.shape)
    y.backward(g)
    right = np.bincount(places.ravel(), g.ravel(), minlength=x.size).reshape(shape)
    np.testing.assert_array_equal(x.grad.numpy(), right)


@given(st.one_of(basic(), mixed()))
def test_gradient_of_gradient_of_any_index(drawn: tuple[tuple[int, ...], Any]) -> None:
    """d/dg of (gradient . v) is v at the index: picking and adding are each other's rules."""
    shape, index = drawn
    x = ta.Tensor(np.ones(shape), True)
    g = ta.Tensor(np.ones(x[index].shape), True)
    first = ta.grad(x[index], x, g, create_graph=True)
    v = np.arange(1.0, x.size + 1).reshape(shape)
    np.testing.assert_array_equal(ta.grad((first * v).sum(), g).numpy(), v[index])


@given(st.data())
def test_embedding_adds_up_the_rows_of_a_token(data: Any) -> None:
    n, d = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 3))
    idx = data.draw(
        hnp.arrays(
            int, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), elements=st.integers(0, n - 1)
        )
    )
    W = ta.Tensor(np.random.default_rng(0).normal(size=(n, d)), True)
    out = ta.embedding(W, idx)
    np.testing.assert_array_equal(out.numpy(), W.numpy()[idx])
    g = np.random.default_rng(1).normal(size=out.shape)
    out.backward(g)
    right = np.zeros((n, d))
    np.add.at(right, idx, g)
    np.testing.assert_allclose(W.grad.numpy(), right, rtol=1e-12, atol=1e-14)


@given(st.data())
def test_take_along_axis_and_scatter_add_are_adjoint(data: Any) -> None:
    """<take(x), y> = <x, scatter(y)> for every axis, with repeats and negative indices."""
    shape = data.draw(SHAPES)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    length = list(shape)
    length[axis] = data.draw(st.integers(0, 5))
    n = shape[axis]
    indices = data.draw(hnp.arrays(int, tuple(length), elements=st.integers(-n, n - 1)))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape), rng.normal(size=tuple(length))
    taken = ta.take_along_axis(x, indices, axis)
    np.testing.assert_array_equal(taken.numpy(), np.take_along_axis(x, indices, axis))
    spread = ta.scatter_add(np.zeros(shape), indices, y, axis)
    assert (taken.numpy() * y).sum() == pytest.approx((x * spread.numpy()).sum(), abs=1e-12)


def test_an_index_may_be_a_tensor() -> None:
    x = ta.Tensor([1.0, 2.0, 3.0], True)
    x[ta.Tensor([2, 2])].sum().backward()
    assert x.grad.numpy().tolist() == [0, 0, 2]
    assert ta.embedding(ta.Tensor([[1.0], [2.0]]), ta.Tensor([1])).numpy().tolist() == [[2]]


@pytest.mark.parametrize(
    ("call", "arrays"),
    [
        (lambda x, i: x[i], [np.array([0, 1])]),
        (lambda x, i: x[..., i], [[0, 1]]),
        (lambda x, i: x[i], [np.array([True, True, False])]),
        (lambda x, i: ta.take_along_axis(x, i), [np.array([0, 1])]),
        (lambda x, i: ta.embedding(x.reshape(3, 1), i), [np.array([0, 1])]),
        (lambda x, m: ta.where(m, x, 0.0), [np.array([True, True, False])]),
        (lambda x, m: ta.masked_fill(x, m, 0.0), [np.array([False, False, True])]),
    ],
)
def test_the_users_index_may_be_filled_anew_before_backward(call: Any, arrays: list[Any]) -> None:
    (index,) = arrays
    x = ta.Tensor([1.0, 2.0, 3.0], True)
    out = call(x, index).sum()
    for i in range(len(index)):
        index[i] = 2
    out.backward()
    assert x.grad.numpy().tolist() == [1, 1, 0]


def test_only_the_shape_of_x_is_kept() -> None:
    x = ta.Tensor(np.ones((3, 4)), True)
    for y in (x[1:], x[[0, 0]], ta.take_along_axis(x, np.zeros((3, 1), int)), ta.embedding(x, [1])):
        assert not any(np.shares_memory(kept, x._data) for kept in y._node.residuals[0] if isinstance(kept, np.ndarray))
