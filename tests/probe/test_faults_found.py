"""The probe's corners, found by attack: zeros that had underflowed in what was saved, 0-d tensors, cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe

ZEROS = [
    ([-200.0], lambda x: ta.exp(x).sum(), ["underflow"]),
    ([20.0], lambda x: ta.tanh(x).sum(), ["nonzero"]),
    ([100.0, -1000.0], lambda x: ta.tanh(x).sum(), ["underflow"] * 2),
    ([-200.0, -1000.0], lambda x: ta.sigmoid(x).sum(), ["underflow"] * 2),
    ([-8.0], lambda x: ta.gelu(x).sum(), ["rounding"]),
    ([[0.0, 200.0, 0.0]], lambda x: ta.cross_entropy(x, [1]), ["underflow"] * 3),
    ([[0.0, 300.0]], lambda x: ta.log_softmax(x)[0, 1], ["underflow"] * 2),
    ([[0.0, 900.0]], lambda x: ta.logsumexp(x), ["underflow", "nonzero"]),
    ([[0.0, 900.0]], lambda x: (ta.softmax(x) * [[1.0, 3.0]]).sum(), ["underflow"] * 2),
    ([1.0, 2.0], lambda x: (x * [1.0, 0.0]).sum(), ["nonzero", "structural"]),
    ([[1.0, 2.0]], lambda x: ta.logsumexp(ta.masked_fill(x, [[True, False]], -np.inf)), ["structural", "nonzero"]),
]


@pytest.mark.parametrize(("values", "f", "kinds"), ZEROS)
def test_why_an_entry_reads_0(values: list, f: Callable, kinds: list[str]) -> None:
    x = ta.Tensor(np.array(values, np.float32), requires_grad=True)
    assert [probe.KINDS[kind] for kind in probe.zeros(f(x), x).ravel()] == kinds


def test_a_learned_temperature_has_kinds_of_zero_too() -> None:
    t = ta.Tensor(1.0, requires_grad=True)
    loss = (ta.softmax(ta.Tensor([[1.0, 2.0]]) * t) * [[1.0, 3.0]]).sum()
    assert probe.KINDS[int(probe.zeros(loss, t))] == "nonzero"


@pytest.mark.parametrize("f", [
    lambda x: (x / x.sum() * x).sum(),
    lambda x: x[np.int64(1)] * 1.0,
    lambda x: ta.clip(x, np.float64(0), np.float64(1)).sum(),
    lambda x: ta.cross_entropy(x, np.int64(1)),
])  # fmt: skip
def test_the_stepper_takes_0_d_tensors_and_numpy_scalars(f: Callable) -> None:
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    stepper = probe.stepper(f(x), {"x": x})
    assert all(str(stepper.at(i)) for i in range(len(stepper)))


def test_a_watch_is_gone_with_its_last_name() -> None:
    model, x = ta.nn.MultiHeadAttention(8, 2, 0, attention="explicit"), ta.randn(2, 5, 8, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        with probe.watch(model, "*") as seen:
            (model(x) ** 2).sum().backward()
        left = weakref.ref(seen)
        del seen
        assert left() is None
    finally:
        gc.enable()
