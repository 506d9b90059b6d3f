"""Optimisers: what they refuse, what they print.  (Their numbers: test_cases.py K2 and K3, peers/.)"""

from __future__ import annotations

import pytest

import tinygrad_attn as ta
from tinygrad_attn.optim import SGD, Adam, AdamW


def weights(dtype: str = "float32") -> ta.Tensor:
    return ta.ones((2, 3), requires_grad=True, dtype=dtype)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: SGD(iter([])), ValueError, "at least one parameter; an exhausted generator gives none"),
        (lambda: SGD(weights()), TypeError, r"takes a list of parameters, got a Tensor; write \[w\]"),
        (lambda: SGD(ta.nn.Linear(2, 2)), TypeError, r"got a Linear; write model.parameters\(\)"),
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
    with pytest.raises(TypeError, match=r"made for a parameter of float32 on cpu found it of float64 on cpu; .* then make"):
        optimiser.step()
    assert layer.W.dtype == "float64"


def test_repr_says_what_it_is() -> None:
    assert repr(AdamW([weights()], lr=0.5)) == "AdamW(lr=0.5, 6 parameters)"
