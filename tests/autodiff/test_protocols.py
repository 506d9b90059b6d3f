"""NumPy meets Tensor: a ufunc that has an operation records; everything else raises and says what to write."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.protocols import _UFUNCS

T = np.array([4.0, 5.0, 6.0])
A = np.array([1.0, 2.0, 3.0])


def tensor() -> ta.Tensor:
    return ta.Tensor(T, True)


@pytest.mark.parametrize(
    ("f", "right"),
    [
        (lambda t: A * t, A), (lambda t: A + t, [1, 1, 1]), (lambda t: A - t, [-1, -1, -1]), (lambda t: A / t, -A / T**2),
        (lambda t: A @ t, A), (lambda t: np.float64(2) * t, [2, 2, 2]), (lambda t: np.float32(2) ** t, 2**T * np.log(2)),
        (lambda t: np.exp(t), np.exp(T)), (lambda t: np.multiply(A, t), A), (lambda t: np.maximum(5.5, t), [0, 0, 1]),
    ],
)  # fmt: skip
def test_an_array_or_scalar_on_the_left_gives_a_tensor(f, right) -> None:
    t = tensor()
    out = f(t)
    assert type(out) is ta.Tensor and out.shape in ((3,), ())
    out.sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), right, rtol=1e-12)


@pytest.mark.parametrize("ufunc", _UFUNCS, ids=lambda u: u.__name__)
def test_each_ufunc_is_the_operation_of_that_name(ufunc: np.ufunc) -> None:
    args = [tensor() * 0.1] * ufunc.nin
    np.testing.assert_allclose(ufunc(*args).numpy(), ufunc(*[a.numpy() for a in args]), rtol=1e-13)


def test_square_is_the_product_with_itself() -> None:
    t = ta.Tensor([2.0, 3.0], requires_grad=True)
    np.square(t).sum().backward()
    assert t.grad.numpy().tolist() == [4, 6]


def test_comparisons_and_tests_give_plain_arrays() -> None:
    t = tensor()
    for got in (np.less(A, t), operator.lt(A, t), t > A, np.isnan(t), np.isfinite(t), operator.eq(A, t)):
        assert type(got) is np.ndarray and got.dtype == bool


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda t: np.arctan(t), r"np.arctan has no gradient here; write np.arctan\(t.data\) .* ta.op"),
        (lambda t: np.add.reduce(t), r"np.add.reduce has no gradient here"),
        (lambda t: np.sum(t), r"np.sum would lose the graph of a Tensor; write ta.sum\(...\), or np.sum\(t.data\)"),
        (lambda t: np.amax(t), r"write ta.max\(...\)"),
        (lambda t: np.concatenate([t, t]), r"np.concatenate .* write ta.concatenate\(...\)"),
        (lambda t: np.linalg.norm(t), r"np.linalg.norm .* write ta.norm\(...\), or np.linalg.norm\(t.data\)"),
        (lambda t: np.dot(t, t), r"write ta.matmul\(...\)"),
        (lambda t: np.median(t), r"np.median .* write an operation of tinygrad_attn"),
        (lambda t: np.add(A, t, out=A.copy()), r"cannot be written to in place"),
        (lambda t: np.exp(t, where=[True, False, True]), r"np.exp has no gradient here"),
    ],
)  # fmt: skip
def test_everything_else_raises_with_the_spelling_to_use(f, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        f(tensor())


def test_an_array_is_not_added_to_in_place() -> None:
    a = A.copy()
    with pytest.raises(TypeError, match="in place"):
        a += tensor()
    assert a.tolist() == A.tolist()


def test_asarray_is_a_read_only_view_and_a_dtype_makes_a_copy() -> None:
    t = tensor()
    view = np.asarray(t)
    assert np.shares_memory(view, t._data) and not view.flags.writeable
    assert np.asarray(t, np.float32).dtype == np.float32 and not np.shares_memory(np.array(t), t._data)


def test_in_place_is_refused_too() -> None:
    with pytest.raises(
        TypeError, match=r"x\[...\] = ... would lose the gradient .* ta.where\(mask, value, x\).*ta.scatter_add"
    ):
        tensor()[0] = 1.0
