"""The dtype rule: nothing widens."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

F32, F64 = np.float32, np.float64
OTHERS = [
    2,
    2.0,
    True,
    np.float64(2),
    np.float32(2),
    np.int64(2),
    np.array(2),
    np.array(2.0),
    np.ones(3),
    np.ones(3, int),
    [1.0, 2.0, 3.0],
]


@pytest.mark.parametrize("dtype", [np.float16, F32, F64])
@pytest.mark.parametrize("other", OTHERS, ids=lambda o: f"{type(o).__name__}{getattr(o, 'dtype', '')}")
def test_what_is_no_tensor_takes_the_tensors_dtype(dtype, other) -> None:
    for f in (
        lambda x: x * other,
        lambda x: other * x,
        lambda x: x + other,
        lambda x: other - x,
        lambda x: x / other,
        lambda x: other / x,
        lambda x: x**other,
        lambda x: other**x,
        lambda x: ta.maximum(x, other),
        lambda x: ta.where([True, False, True], x, other),
        lambda x: ta.clip(x, np.float64(0.5), 2.0),
        lambda x: x.mean() * other,
    ):
        x = ta.Tensor([1.0, 2.0, 3.0], True, dtype=dtype)
        y = f(x)
        y.sum().backward()
        assert y.dtype == dtype and x.grad.dtype == dtype


def test_a_sequence_with_arrays_takes_the_tensors_dtype() -> None:
    x = ta.Tensor([1.0, 2.0], True)
    assert ta.concatenate([np.ones(2), x]).dtype == F32 and ta.stack([x, np.ones(2)]).dtype == F32
    assert ta.einsum("i,i->", x, np.ones(2)).dtype == F32 and ta.einsum(",i->i", 2.0, x).dtype == F32
    assert ta.concatenate([[1.0], np.ones(1)]).dtype == F64  # no tensor: each is one


def test_of_two_tensors_the_wider_wins() -> None:
    x, y, n = ta.Tensor([1.0], True), ta.Tensor([1.0], True, dtype=F64), ta.Tensor([2])
    assert (x * y).dtype == F64 and (x * n).dtype == F32 and (n * n).dtype == np.int64
    (x * y * n).backward()
    assert x.grad.dtype == F32 and y.grad.dtype == F64


def test_a_whole_training_step_stays_float32() -> None:
    x = ta.Tensor([1.0, 2.0, 3.0], True)
    loss = sum([x, x]).sum() / np.array(10) + 1
    loss = loss + x.var() + x.max() + ta.masked_fill(x, x > 2, np.float64(0)).mean() + ta.pad(x, 1, np.float64(1)).sum()
    loss.backward(np.float64(1.0))
    with ta.no_grad():
        x -= np.float64(0.1) * x.grad
    assert loss.dtype == x.grad.dtype == x.dtype == F32


@pytest.mark.parametrize("other", ["a", None, {}, 1j, np.array(["a"]), np.array([1j])])
def test_what_is_not_a_number_is_refused_with_operation_and_line(other) -> None:
    with pytest.raises(TypeError, match=r"(?s)add: .*\n  at test_operands.py:\d+: ta.Tensor"):
        ta.Tensor([1.0, 2.0]) + other
