"""Tensor: what it is made from, what it owns, what can be written on it."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tinygrad_attn as ta

F32, F64, I64 = np.float32, np.float64, np.int64


class TestMaking:
    @pytest.mark.parametrize(
        ("data", "dtype"),
        [(1.5, F32), ([1.0, 2.0], F32), ([[1, 2], [3, 4]], I64), (True, bool), (np.ones(2), F64), (np.float64(1), F64),
         (np.ones(2, np.float16), np.float16), ([np.float32(1), 2], F32), ([], F32), (np.arange(3, dtype=np.int8), np.int8)],
    )  # fmt: skip
    def test_python_floats_become_float32_and_arrays_keep_their_dtype(self, data, dtype) -> None:
        x = ta.Tensor(data)
        assert x.dtype == dtype and isinstance(x._data, np.ndarray)
        np.testing.assert_array_equal(x.numpy(), np.asarray(data).astype(dtype))

    def test_lists_of_tensors_and_0d_arrays(self) -> None:
        x = ta.Tensor([1.0, ta.Tensor(2.0), np.array(3.0)])
        assert x.numpy().tolist() == [1, 2, 3] and x.dtype == F32

    def test_dtype_is_taken(self) -> None:
        assert ta.Tensor([1, 2], dtype="float64").dtype == F64
        assert ta.Tensor(0.1, dtype=F64).item() == 0.1
        assert ta.Tensor(np.ones(2, ">f4")).dtype == F32

    def test_the_data_are_copied_in_and_out(self) -> None:
        array = np.ones(2)
        x = ta.Tensor(array)
        y = ta.Tensor(x)
        array[:], out = 5.0, x.numpy()
        out[:] = 7.0
        x.data = [3.0, 3.0]
        assert y.numpy().tolist() == [1, 1] and x.numpy().tolist() == [3, 3]

    def test_from_dlpack_shares(self) -> None:
        array = np.ones(2)
        x = ta.from_dlpack(array)
        array[0] = 5.0
        assert x.numpy().tolist() == [5, 1]

    @pytest.mark.parametrize(
        "data", ["abc", None, {1: 2}, [None], 1j, object(), np.array(["a"]), np.ones(2, np.longdouble)]
    )
    def test_what_is_not_a_real_number_is_refused(self, data) -> None:
        with pytest.raises((TypeError, ValueError), match=r"expected (real )?numbers"):
            ta.Tensor(data)

    def test_zeros_ones_arange_randn(self) -> None:
        assert ta.zeros((2, 3)).numpy().tolist() == [[0] * 3] * 2 and ta.ones(2, requires_grad=True).requires_grad
        assert ta.arange(2, 5).dtype == I64 and ta.arange(0.0, 1.0, 0.5).dtype == F32
        ta.manual_seed(1)
        a = ta.randn(2, 3)
        ta.manual_seed(1)
        np.testing.assert_array_equal(a.numpy(), ta.randn((2, 3)).numpy())
        ta.manual_seed(1)
        np.testing.assert_allclose(ta.randn(2, 3, dtype=F64).numpy(), a.numpy(), rtol=1e-6)


class TestRequiresGrad:
    def test_a_leaf_can_be_switched(self) -> None:
        x = ta.Tensor([1.0])
        assert x.is_leaf and not x.requires_grad
        x.requires_grad = True
        assert (x * 2).requires_grad and not (x * 2).is_leaf
        x.requires_grad = False
        assert not (x * 2).requires_grad

    def test_a_computed_tensor_cannot(self) -> None:
        y = ta.Tensor([1.0], True) * 2
        with pytest.raises(RuntimeError, match=r"use x.detach\(\)"):
            y.requires_grad = False


class TestPythonProtocols:
    def test_numbers(self) -> None:
        assert float(ta.Tensor(1.5)) == 1.5 and int(ta.Tensor([7])) == 7 and bool(ta.Tensor([0.0])) is False
        assert [10, 20, 30][ta.Tensor(2)] == 30
        assert type(ta.Tensor(1.5).item()) is float and type(ta.Tensor(1).item()) is int
        with pytest.raises(TypeError, match="only an integer tensor is an index, got float32"):
            [10][ta.Tensor(0.0)]

    def test_len_and_iteration(self) -> None:
        x = ta.Tensor([[1.0, 2.0], [3.0, 4.0]], True)
        assert len(x) == 2
        a, b = x
        (a * b).sum().backward()
        assert x.grad.numpy().tolist() == [[3, 4], [1, 2]]
        for f in (len, iter):
            with pytest.raises(TypeError, match="a 0-d tensor has no length"):
                f(ta.Tensor(1.0))

    def test_the_truth_of_several_numbers_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"shape \(2,\) is not one answer; write \(x > 0\).any\(\)"):
            bool(ta.Tensor([1.0, 2.0]))

    def test_comparisons_are_plain_boolean_arrays(self) -> None:
        x = ta.Tensor([1.0, 2.0, 3.0], True)
        for got in (x > 2, x >= 2.0, x < np.full(3, 2.0), x <= ta.Tensor([2.0, 2.0, 2.0]), x == 2, x != [2, 2, 2]):
            assert type(got) is np.ndarray and got.dtype == bool
        assert (x > 2).tolist() == [False, False, True] and operator.ge(2, x).tolist() == [True, True, False]
        assert (x == np.array([1, 0, 3])).tolist() == [True, False, True]

    def test_equality_of_tensors_is_identity(self) -> None:
        """So that `in`, `index` and dictionaries mean the tensor, not its values."""
        a, b = ta.Tensor([1.0, 2.0]), ta.Tensor([1.0, 2.0])
        assert a in [b, a] and a not in [b] and a not in ["a", None] and [b, a].index(a) == 1
        assert (a == b) is False and (a != b) is True and {a: 1, b: 2}[b] == 2

    def test_repr_shows_values_dtype_and_origin(self) -> None:
        x = ta.Tensor([1.0, 2.0], True)
        assert repr(x) == "Tensor([1. 2.], requires_grad=True)"
        assert repr((x * 2).named("h")) == "Tensor([2. 4.], name='h', op=mul)"
        assert "shape=(30,)" in repr(ta.zeros(30)) and "dtype=int64" in repr(ta.Tensor([1]))
        assert repr(ta.arange(2.0, requires_grad=True)) == "Tensor([0. 1.], requires_grad=True)"
        assert repr(ta.zeros((0, 3))) == "Tensor([], shape=(0, 3))"


class TestOperators:
    def test_reflected_operators_differentiate_the_right_function(self) -> None:
        for f, right in [
            (lambda x: 10 - x, -1),
            (lambda x: 6 / x, -6 / 9),
            (lambda x: 2**x, 8 * np.log(2)),
            (lambda x: 4 + x, 1),
        ]:
            x = ta.Tensor(3.0, True, dtype=F64)
            f(x).backward()
            assert x.grad.item() == pytest.approx(right, rel=1e-12)
        x = ta.Tensor([1.0, 2.0], True)
        ([[3.0, 4.0]] @ x).sum().backward()
        assert x.grad.numpy().tolist() == [3, 4]

    def test_methods_are_the_functions(self) -> None:
        x = ta.Tensor([[1.0, 4.0], [9.0, 16.0]])
        for name in [
            "exp",
            "log",
            "sqrt",
            "abs",
            "sum",
            "mean",
            "var",
            "std",
            "max",
            "min",
            "prod",
            "cumsum",
            "squeeze",
        ]:
            np.testing.assert_array_equal(getattr(x, name)().numpy(), getattr(ta, name)(x).numpy())
        np.testing.assert_array_equal(x.T.numpy(), x.numpy().T)
        np.testing.assert_array_equal(x.reshape(4).numpy(), x.reshape((4,)).numpy())
        np.testing.assert_array_equal(x.clip(2, 10).numpy(), [[2, 4], [9, 10]])
        assert (+x) is x and abs(-x).numpy().tolist() == x.numpy().tolist()
        y = ta.zeros((2, 3, 4))
        assert y.mT.shape == (2, 4, 3) and y.T.shape == (4, 3, 2) and y.swapaxes(0, 1).shape == (3, 2, 4)
        assert y.transpose().shape == (4, 3, 2) == y.transpose(2, 1, 0).shape == y.transpose((2, 1, 0)).shape

    def test_in_place_operators_update_under_no_grad(self) -> None:
        w = ta.Tensor([4.0, 8.0], True)
        same = w
        with ta.no_grad():
            w -= 1.0
            w *= 2.0
            w += [2.0, 2.0]
            w /= np.float64(2)
        assert w is same and w.requires_grad and w.is_leaf and w.dtype == F32 and w.numpy().tolist() == [4, 8]

    def test_elsewhere_they_make_a_new_tensor_but_never_of_a_leaf(self) -> None:
        x = ta.Tensor([1.0], True)
        y = x * 2
        old = y
        y += 1.0
        assert y is not old and old.numpy().tolist() == [2]
        with pytest.raises(RuntimeError, match=r"x -= ... would replace a leaf .*no_grad\(\)"):
            x -= 1.0

    def test_in_place_operators_keep_shape_and_dtype(self) -> None:
        x, whole = ta.Tensor([1.0, 2.0]), ta.Tensor([1, 2])
        with ta.no_grad():
            with pytest.raises(ValueError, match=r"expected a result of shape \(2,\), got \(2, 2\)"):
                x += ta.ones((2, 2))
            with pytest.raises(TypeError, match=r"int64 cannot hold the result; write x = x / \.\.\."):
                whole /= 2

    def test_new_data_keep_shape_and_dtype(self) -> None:
        x = ta.Tensor([1.0, 2.0], True)
        x.data = np.array([3.0, 4.0])
        assert x.dtype == F32 and x.numpy().tolist() == [3, 4]
        with pytest.raises(ValueError, match=r"x.data = ...: expected shape \(2,\), got \(3,\)"):
            x.data = [1.0, 2.0, 3.0]

    def test_names_stand_under_their_scope(self) -> None:
        with ta.scope("blocks.0"), ta.scope("attn"):
            assert ta.Tensor([1.0]).named("q").name == "blocks.0.attn.q"
        assert ta.Tensor([1.0]).name is None

    def test_to_the_same_device_is_itself(self) -> None:
        x = ta.Tensor([1.0], True)
        assert x.device == "cpu" and x.to("cpu") is x


def test_one_entry_is_formatted_as_a_number():
    assert f"{ta.Tensor(1.5):.3f}" == "1.500" and f"{ta.Tensor(2.0)}" == "Tensor(2.)"
    with pytest.raises(ValueError, match=r"expected one entry, got shape \(2,\)"):
        f"{ta.ones(2):.3f}"
