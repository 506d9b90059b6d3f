"""Everything runs on a device that behaves like a GPU's (strict_device.py), and never waits for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strict_device
from optable import ROWS, Row, inputs
from row_derivatives import derivatives, weighted
from strict_device import StrictArray, counting, module

import tinygrad_attn as ta

strict_device.register()

# ---------------------------------------------------------------------------- the device is strict


@pytest.mark.parametrize(
    "mistake",
    [
        lambda a, n: np.asarray(a),
        lambda a, n: np.exp(a),
        lambda a, n: np.sum(a),
        lambda a, n: np.concatenate([a, a]),
        lambda a, n: a + n,
        lambda a, n: n + a,
        lambda a, n: n @ a,
        lambda a, n: a < n,
        lambda a, n: module.maximum(a, n),
        lambda a, n: module.where(True, a, a),
        lambda a, n: module.exp([1.0]),
        lambda a, n: module.add(a, a, where=a > 0),
        lambda a, n: a.sum(where=a > 0),
        lambda a, n: a[n.astype(int)],
        lambda a, n: a.__setitem__(0, n[0:1]),
    ],
)
def test_what_cupy_refuses_is_refused(mistake: Any) -> None:
    with pytest.raises((TypeError, IndexError)):
        mistake(module.asarray([1.0, 0.0]), np.ones(2))


@pytest.mark.parametrize("name", ["itemset", "setflags", "__array_namespace__", "to_device"])
def test_what_cupy_lacks_is_missing(name: str) -> None:
    assert not hasattr(module.ones(2), name)
    assert not hasattr(module, "nanargmax_like_this") and not hasattr(module.ones(2).flags, "writeable")


def test_results_are_arrays_and_waits_are_counted() -> None:
    a = module.asarray([1.0, 2.0])
    with counting() as waits:
        made = [a.sum(), a[0], a.max() * 2, a.mean() > 1, module.linalg.norm(a), a @ a, 2.0 / a[1]]
    assert all(type(x) is StrictArray and x.shape == () for x in made) and waits == []
    with counting() as waits:
        float(a[0]), bool(a[0]), a.get(), a.tolist(), a[1].item(), a[a > 1], module.nonzero(a)
    assert len(waits) == 7 and all("test_strict_device.py" in wait for wait in waits)


# ---------------------------------------------------------------------------- every operation


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_operation_gives_what_it_gives_on_numpy(row: Row, dtype: Any) -> None:
    if dtype is np.float16 and not row.half:
        pytest.skip("float16 is too coarse for this row")
    if row.note == "negative_base":
        pytest.skip("its exponent is a NumPy array: devices do not mix")
    with counting() as waits:
        ours = derivatives(row, "strict", dtype)
    if not row.note.startswith("boolean"):  # x[mask]: its length is known only when the mask has been read
        assert waits == []
    expected = derivatives(row, "cpu", dtype)
    rtol = 10 * float(np.finfo(dtype).eps)
    for x, y in zip(ours, expected, strict=True):
        assert (x.device, x.dtype, x.shape) == ("strict", y.dtype, y.shape)
        scale = float(np.abs(y.numpy()).max(initial=1.0))
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("row", [row for row in ROWS if row.empty or row.scalar], ids=str)
def test_inputs_without_entries_and_0d_inputs(row: Row) -> None:
    for shapes in (row.empty, row.scalar):
        if shapes is not None:
            results = []
            for device in ("strict", "cpu"):
                given = [ta.Tensor(a, True, device=device) if a.dtype.kind == "f" else a for a in inputs(shapes)]
                out = row(*given)
                outs = list(out) if isinstance(out, (list, tuple)) else [out]
                tensors = [t for t in given if isinstance(t, ta.Tensor)]
                results.append([*outs, *ta.grad(weighted(outs), tensors)])
            for x, y in zip(*results, strict=True):
                np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12)
                assert (x.device, x.shape) == ("strict", y.shape)


def test_indices_masks_and_targets_may_live_on_either_side() -> None:
    for place in (np.asarray, module.asarray, list, lambda values: ta.Tensor(values, device="strict")):
        x = ta.Tensor([[1.0, 2.0], [3.0, 4.0]], True, device="strict")
        picked = x[place([1, 1, 0])] * ta.Tensor([[1.0], [2.0], [4.0]], device="strict")
        picked.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [[4, 4], [3, 3]])  # case I4
        ta.masked_fill(x, place([True, False]), 0.0), ta.embedding(x, place([1, 0]))
        ta.cross_entropy(x, place([1, 0])), ta.take_along_axis(x, place([[0], [1]]))
        ta.where(place([True, False]), x, 0.0), ta.scaled_dot_product_attention(x, x, x, mask=place([True, False]))


# ---------------------------------------------------------------------------- devices do not mix

here, there = np.ones((2, 2), np.float32), module.ones((2, 2), dtype="float32")
a, b = ta.Tensor(here, True), ta.Tensor(there, True)


@pytest.mark.parametrize(
    "mix",
    [
        lambda: a + b,
        lambda: b @ a,
        lambda: ta.maximum(a, b),
        lambda: ta.concatenate([a, b]),
        lambda: ta.einsum("ij,jk->ik", b, a),
        lambda: ta.where([[True, False]], b, a),
        lambda: ta.layer_norm(b, a[0]),
        lambda: ta.scatter_add(a, np.zeros((2, 2), int), b),
        lambda: ta.embedding(a, module.zeros(2, dtype=int)),
        lambda: a[module.zeros(2, dtype=int)],
        lambda: ta.masked_fill(a, there > 0, 0.0),
        lambda: ta.cross_entropy(a, module.zeros(2, dtype=int)),
        lambda: b + here,
        lambda: here * b,
        lambda: a - there,
        lambda: there / a,
        lambda: b > here,
        lambda: a == there,
        lambda: a.sum().backward(b.sum()),
        lambda: (b * 1).backward(here),
        lambda: ta.scaled_dot_product_attention(a, a, b),
        lambda: ta.nn.Linear(2, 2, seed=0)(b),
    ],
)
def test_an_error_of_ours_names_both_devices(mix: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)cpu.*strict|strict.*cpu"):
        mix()


def test_unknown_and_absent_devices() -> None:
    with pytest.raises(ValueError, match=r"unknown device 'gpu'; expected one of 'cpu', 'cuda'"):
        ta.Tensor([1.0], device="gpu")
    with pytest.raises(ValueError, match="'cpu:1'"):
        ta.Tensor([1.0], device="cpu:1")


def test_cuda_without_cupy_or_without_a_gpu_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cupy", None)  # `import cupy` now raises ImportError
    with pytest.raises(RuntimeError, match=r"(?s)CuPy is not installed.*pip install.*device='cpu'"):
        ta.Tensor([1.0], device="cuda")


# ---------------------------------------------------------------------------- scalars, moves, text


def test_numbers_come_back_as_python_numbers_and_moves_copy() -> None:
    x = ta.Tensor([[1.0, 2.0], [3.0, 4.0]], True, device="strict")
    mean = x.mean()
    assert mean.shape == () and type(mean._data) is StrictArray  # case I4
    assert float(mean) == 2.5 and type(float(mean)) is float and type(mean.item()) is float and int(mean) == 2
    assert ta.Tensor([0.0, x[0, 0]]).numpy().tolist() == [0.0, 1.0]
    assert x.to("strict") is x and x.to("cpu").device == "cpu" and x.to("cpu").to("strict").requires_grad
    assert "device='strict'" in repr(x) and isinstance(x.numpy(), np.ndarray)
    with pytest.raises(TypeError, match=r"strict does not become a NumPy array silently; write x\.numpy\(\)"):
        np.asarray(x)
    assert ((np.float64(2) * x).dtype, (x + np.float32(1)).dtype, (2 * x).dtype) == (np.float32,) * 3
    assert type(np.isnan(x)) is StrictArray and np.exp(x).device == "strict"


def test_second_derivatives_of_whole_functions() -> None:
    for device in ("cpu", "strict"):
        x = ta.Tensor([0.5, -1.0], device=device)
        hessian_v = ta.hvp(lambda t: (t * t * t).sum(), x, [1.0, 2.0])
        np.testing.assert_allclose(hessian_v.numpy(), [3.0, -12.0], rtol=1e-6)
        np.testing.assert_allclose(ta.jacobian(lambda t: t * t, x).numpy(), [[1, 0], [0, -2]], rtol=1e-6)
        np.testing.assert_allclose(ta.jvp(ta.tanh, x, [1.0, 0.0]).numpy(), [1 - np.tanh(0.5) ** 2, 0], rtol=1e-6)
    ta.testing.check_grads(ta.softmax, ta.Tensor([0.1, 0.7, -0.4], device="strict"))
