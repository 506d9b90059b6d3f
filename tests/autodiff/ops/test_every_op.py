"""What holds for every operation, checked on every row of the table (see optable.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optable import ROWS, Row, inputs

import tinygrad_attn as ta
from tinygrad_attn.autodiff.graph import Op

every_row = pytest.mark.parametrize("row", ROWS, ids=str)


def drawn(row: Row) -> list[np.ndarray]:
    return row.make(np.random.default_rng(1))


def tensors(arrays: list[np.ndarray], dtype: Any = np.float64) -> list[Any]:
    return [ta.Tensor(a, True, dtype=dtype) if a.dtype.kind == "f" else a for a in arrays]


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def weights(out: ta.Tensor, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(2).uniform(-1.5, 1.5, out.shape).astype(dtype)


def gradients(outs: list[ta.Tensor], given: list[Any]) -> list[np.ndarray]:
    """Backward from all outputs, weighted; the gradients of the floats among the inputs."""
    for out in outs:
        if out.requires_grad:
            out.backward(weights(out, out.dtype), retain_graph=True)
    return [t.grad.numpy() for t in given if isinstance(t, ta.Tensor)]


def close(ours: np.ndarray, right: Any, tolerance: float) -> None:
    """Equal shapes, and within `tolerance` of the largest entry."""
    right = np.asarray(right)
    assert ours.shape == right.shape
    np.testing.assert_allclose(ours, right, rtol=0, atol=tolerance * max(1.0, np.abs(right).max(initial=0.0)))


def test_every_operation_has_a_row() -> None:
    operations = {name for name in dir(ta) if isinstance(getattr(getattr(ta, name), "op", None), Op)}
    assert operations - {row.op for row in ROWS} - {"fused_attention"} == set()


@every_row
def test_value(row: Row) -> None:
    arrays = drawn(row)
    for out, right in zip(listed(row(*tensors(arrays))), listed(row.reference(*arrays)), strict=True):
        assert isinstance(out, ta.Tensor) and isinstance(out._data, np.ndarray)
        close(out.numpy(), right, 1e-13)


@every_row
def test_gradient_and_gradient_of_gradient(row: Row) -> None:
    ta.testing.check_grads(row, *drawn(row), order=2)


@every_row
def test_dtype_stays(row: Row) -> None:
    for dtype, tolerance in ((np.float32, 2e-6), (np.float16, 1e-2)):
        stays(row, dtype, tolerance)


def stays(row: Row, dtype: Any, tolerance: float) -> None:
    rounded = [a.astype(dtype).astype(np.float64) if a.dtype.kind == "f" else a for a in drawn(row)]
    narrow, wide = tensors(rounded, dtype), tensors(rounded)
    outs, right = listed(row(*narrow)), listed(row(*wide))
    for out, expected in zip(outs, right):
        assert out.dtype == row.settings.get("dtype", dtype)
        close(out.numpy(), expected.numpy(), tolerance)
    for ours, expected in zip(gradients(outs, narrow), gradients(right, wide)):
        assert ours.dtype == dtype
        close(ours, expected, 4 * tolerance)


@pytest.mark.parametrize("row", [r for r in ROWS if sum(a.dtype.kind == "f" for a in drawn(r)) > 1], ids=str)
def test_of_two_dtypes_the_wider_wins_and_each_gradient_keeps_its_own(row: Row) -> None:
    arrays = drawn(row)
    given = [*tensors(arrays[:1], np.float32), *tensors(arrays[1:])]
    outs = listed(row(*given))
    assert {out.dtype for out in outs} == {np.dtype(np.float64)}
    grads = gradients(outs, given)
    assert [g.dtype for g in grads] == [np.float32] + [np.float64] * (len(grads) - 1)


@pytest.mark.parametrize("row", [r for r in ROWS if r.empty is not None], ids=str)
def test_no_entries(row: Row) -> None:
    small(row, inputs(row.empty or ()))


@pytest.mark.parametrize("row", [r for r in ROWS if r.scalar is not None], ids=str)
def test_0d(row: Row) -> None:
    small(row, inputs(row.scalar or ()))


def small(row: Row, arrays: list[np.ndarray]) -> None:
    given = tensors(arrays)
    outs = listed(row(*given))
    for out, right in zip(outs, listed(row.reference(*arrays)), strict=True):
        assert isinstance(out._data, np.ndarray)
        close(out.numpy(), right, 1e-13)
    for g, a in zip(gradients(outs, given), arrays):
        assert g.shape == a.shape and np.isfinite(g).all()
    ta.testing.check_grads(row, *arrays, order=2) if min(a.size for a in arrays) else None


def strided(a: np.ndarray) -> ta.Tensor:
    """A tensor equal to `a` whose array skips every second number."""
    return ta.Tensor(np.repeat(a, 2, axis=-1), True)[..., ::2] if a.ndim else ta.Tensor(a, True)


def transposed(a: np.ndarray) -> ta.Tensor:
    """A tensor equal to `a` whose array runs along the first axis."""
    return ta.Tensor(a.T.copy(), True).T


@every_row
def test_non_contiguous_inputs_and_gradients(row: Row) -> None:
    arrays = drawn(row)
    plain = tensors(arrays)
    right = gradients(listed(row(*plain)), plain)
    for laid_out in (strided, transposed):
        given = [laid_out(a).retain_grad() if a.dtype.kind == "f" else a for a in arrays]
        for out in listed(row(*given)):
            if out.requires_grad:
                (out.T * weights(out).T).sum().backward(retain_graph=True)  # arrives transposed
        for x, expected in zip((t for t in given if isinstance(t, ta.Tensor)), right):
            close(x.grad.numpy(), expected, 1e-12)


@every_row
def test_a_broadcast_gradient(row: Row) -> None:
    """The gradient of a sum is one number seen everywhere: an array without memory of its own."""
    arrays = drawn(row)
    given, plain = tensors(arrays), tensors(arrays)
    for out in listed(row(*given)):
        if out.requires_grad:
            out.sum().backward(retain_graph=True)
    for out in listed(row(*plain)):
        if out.requires_grad:
            out.backward(np.ones(out.shape), retain_graph=True)
    for a, b in zip(given, plain):
        if isinstance(a, ta.Tensor):
            close(a.grad.numpy(), b.grad.numpy(), 1e-13)


def all_arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [array for part in parts for array in all_arrays(part)]


@every_row
def test_nothing_shares_memory_with_a_gradient(row: Row) -> None:
    for create_graph in (False, True):
        shares_nothing(row, create_graph)


def shares_nothing(row: Row, create_graph: bool) -> None:
    given = tensors(drawn(row))
    leaves = [t for t in given if isinstance(t, ta.Tensor)]
    out = listed(row(*given))[0]
    seed = ta.Tensor(weights(out))
    out.backward(seed, retain_graph=True, create_graph=create_graph)
    grads = [x.grad._data for x in leaves]
    others = [seed._data, out._data, *[x._data for x in leaves], *all_arrays(out._node.residuals)]
    for i, g in enumerate(grads):
        assert not any(np.shares_memory(g, other) for other in grads[:i] + others)


@pytest.mark.parametrize("row", [r for r in ROWS if r.call is None], ids=str)
def test_bare_arrays_and_lists_give_a_tensor(row: Row) -> None:
    arrays = drawn(row)
    for given in (arrays, [a.tolist() for a in arrays]):
        for out, right in zip(listed(row(*given)), listed(row.reference(*arrays))):
            assert isinstance(out, ta.Tensor) and not out.requires_grad
            close(out.numpy(), right, 1e-5)


@every_row
def test_nothing_is_recorded_without_a_leaf_or_under_no_grad(row: Row) -> None:
    arrays = drawn(row)
    with ta.no_grad():
        assert not any(out.requires_grad for out in listed(row(*tensors(arrays))))
    constants = [ta.Tensor(a) if a.dtype.kind == "f" else a for a in arrays]
    assert not any(out.requires_grad for out in listed(row(*constants)))


FLOATS = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "gelu",
    "softmax",
    "log_softmax",
    "logsumexp",
    "mean",
    "var",
    "std",
    "norm",
    "layer_norm",
]


@pytest.mark.parametrize("name", FLOATS)
def test_integers_give_float32(name: str) -> None:
    operation = getattr(ta, name)
    out = operation(ta.Tensor([1, 2, 4]))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out.numpy(), operation(ta.Tensor([1.0, 2.0, 4.0])).numpy(), rtol=1e-6)
