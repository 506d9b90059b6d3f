"""Every row of the table against PyTorch: values, gradients, and gradients of gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from optable import ROWS, Row
from peers.torchtable import NOT_IN_TORCH, in_torch

import tinygrad_attn as ta

pytestmark = pytest.mark.peers

every_row = pytest.mark.parametrize("row", [row for row in ROWS if str(row) not in NOT_IN_TORCH], ids=str)


def drawn(row: Row, scale: float = 1.0) -> list[np.ndarray]:
    return [scale * a if a.dtype.kind == "f" else a for a in row.make(np.random.default_rng(11))]


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def ours(row: Row, arrays: list[np.ndarray], dtype: Any, order: int) -> list[np.ndarray]:
    """Values, then gradients of a weighted sum; at order 2 also the gradients of those, weighted."""
    inputs = [ta.Tensor(a, True, dtype=dtype) if a.dtype.kind == "f" else a for a in arrays]
    leaves = [x for x in inputs if isinstance(x, ta.Tensor)]
    found, rng = listed(row(*inputs)), np.random.default_rng(12)
    results = list(found)
    for _ in range(order):
        total = sum((out * rng.uniform(0.5, 1.5, out.shape)).sum() for out in found)
        if not total.requires_grad:
            break
        for x in leaves:
            x.grad = None
        total.backward(create_graph=True)
        found = [x.grad for x in leaves if x.grad is not None]
        results += found
    return [result.numpy() for result in results]


def theirs(row: Row, arrays: list[np.ndarray], dtype: Any, order: int) -> list[np.ndarray]:
    inputs = [
        torch.tensor(a.astype(dtype), requires_grad=True) if a.dtype.kind == "f" else torch.tensor(a) for a in arrays
    ]
    leaves = [x for x in inputs if x.requires_grad]
    found, rng = listed(in_torch(row)(*inputs)), np.random.default_rng(12)
    results = list(found)
    for _ in range(order):
        total = sum(
            (out * torch.tensor(rng.uniform(0.5, 1.5, out.shape).astype(out.detach().numpy().dtype))).sum()
            for out in found
        )
        if not total.requires_grad:
            break
        found = [g for g in torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True) if g is not None]
        results += found
    return [result.numpy(force=True) for result in results]


def same(got: list[np.ndarray], right: list[np.ndarray], tolerance: float) -> None:
    assert [a.shape for a in got] == [b.shape for b in right]
    for a, b in zip(got, right):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max(initial=0.0))


@every_row
def test_float64_to_1e_12_of_the_largest_entry(row: Row) -> None:
    arrays = drawn(row)
    same(ours(row, arrays, np.float64, 1), theirs(row, arrays, np.float64, 1), 1e-12)


@every_row
def test_gradients_of_gradients(row: Row) -> None:
    """To 1e-12 of the largest entry of all: some second gradients are 0 but for rounding, or left out."""
    arrays = drawn(row)
    got, right = ours(row, arrays, np.float64, 2), theirs(row, arrays, np.float64, 2)
    largest = max(np.abs(b).max(initial=0.0) for b in right)
    for a, b in itertools.zip_longest(got, right, fillvalue=np.float64(0)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * largest)


@every_row
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_float32_errs_no_more_than_four_times_as_much(row: Row, scale: float) -> None:
    """Against float64, at most 4 times PyTorch's own error, plus 1e-6 of the largest entry."""
    arrays = [a.astype(np.float32).astype(np.float64) if a.dtype.kind == "f" else a for a in drawn(row, scale)]
    exact = theirs(row, arrays, np.float64, 1)
    for a, b, right in zip(ours(row, arrays, np.float32, 1), theirs(row, arrays, np.float32, 1), exact, strict=True):
        allowed = 4 * np.abs(b - right).max(initial=0.0) + 1e-6 * np.abs(right).max(initial=0.0)
        assert np.abs(a - right).max(initial=0.0) <= allowed
