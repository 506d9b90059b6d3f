"""Optimisers: what they refuse, what they print.  (Their numbers: test_cases.py K2 and K3, peers/.)"""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.optim import SGD, Adam, AdamW, clip_grad_norm


def weights(dtype: str = "float32") -> ta.Tensor:
    return ta.ones((2, 3), requires_grad=True, dtype=dtype)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: SGD(iter([])), ValueError, "at least one parameter; an exhausted generator gives none"),
        (lambda: SGD(weights()), TypeError, r"SGD: expected a list of parameters, got a Tensor; write \[w\]"),
        (lambda: SGD(ta.nn.Linear(2, 2)), TypeError, r"got a Linear; write model.parameters\(\)"),
        (lambda: clip_grad_norm(weights(), 1.0), TypeError, r"clip_grad_norm: expected a list .* write \[w\]"),
        (lambda: SGD([weights() * 2]), TypeError, "takes leaves"),
        (lambda: SGD([ta.Tensor([1, 2])]), TypeError, "takes leaves"),
        (lambda: SGD([1.0]), TypeError, "takes leaves"),
        (lambda: SGD([weights()], lr=-1.0), ValueError, "a learning rate of at least 0, got -1.0"),
        (lambda: Adam([weights()], lr=float("nan")), ValueError, "got nan"),
        (lambda: AdamW([weights()], betas=(0.9, 1.0)), ValueError, "betas from 0 to below 1"),
    ],
)
def test_what_is_refused(make, kind, text) -> None:
    with pytest.raises(kind, match=text):
        make()


def test_a_parameter_that_changed_its_dtype_is_not_quietly_turned_back() -> None:
    layer = ta.nn.Linear(2, 2, seed=0)
    optimiser = Adam(layer.parameters())
    layer.astype("float64")
    layer(ta.ones((1, 2))).sum().backward()
    with pytest.raises(
        TypeError, match=r"made for a parameter of float32 on cpu found it of float64 on cpu; .* then make"
    ):
        optimiser.step()
    assert layer.W.dtype == "float64"


def test_repr_says_what_it_is() -> None:
    assert repr(AdamW([weights()], lr=0.5)) == "AdamW(lr=0.5, 6 parameters)"


def test_the_norm_of_float16_gradients_does_not_overflow() -> None:
    w = weights("float16")
    w.grad = np.full((2, 3), 3e4)
    assert float(clip_grad_norm([w], 1.0)) == pytest.approx(3e4 * 6**0.5, rel=1e-3)
    assert w.grad.dtype == "float16" and w.grad.numpy().tolist() == [[pytest.approx(6**-0.5, rel=1e-3)] * 3] * 2


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.1}])
def test_sgd_follows_its_formula_also_where_a_gradient_is_missing_now_and_then(settings) -> None:
    rng = np.random.default_rng(0)
    w = ta.Tensor(rng.standard_normal(5), requires_grad=True)
    right, v = w.numpy(), 0.0
    optimiser = SGD([w], lr=0.1, **settings)
    for step in range(6):
        w.grad = None if step % 3 == 1 else rng.standard_normal(5)
        if w.grad is not None:
            v = settings.get("momentum", 0.0) * v + w.grad.numpy() + settings.get("weight_decay", 0.0) * right
            right = right - 0.1 * v
        optimiser.step()
    np.testing.assert_allclose(w.numpy(), right, rtol=1e-14)
