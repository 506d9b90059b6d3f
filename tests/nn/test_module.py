"""Module: which tensors are its parameters, under which names, and how they are exchanged."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching


class Part(ta.Module):
    def __init__(self) -> None:
        self.w = ta.ones(2, requires_grad=True)
        self._hidden = ta.ones(3, requires_grad=True)

    def forward(self, x):
        return (x * self.w).named("product")


class Whole(ta.Module):
    def __init__(self) -> None:
        self.parts = [Part(), Part()]
        self.by_name = {"last": Part()}
        self.pair = (ta.ones(1), [ta.zeros(4)])
        self.again = self.parts[0]

    def forward(self, x):
        return self.again(self.by_name["last"](self.parts[1](x)))


NAMES = ["pair.0", "pair.1.0", "parts.0.w", "parts.1.w", "by_name.last.w"]


def test_parameters_are_found_in_lists_tuples_and_dicts_each_once() -> None:
    assert [name for name, _ in Whole().named_parameters()] == NAMES
    assert len(Whole().parameters()) == 5


def test_names_inside_carry_the_path_of_the_parameters() -> None:
    whole, seen = Whole(), []
    whole.parameters()
    with watching(lambda path, tensor: seen.append(path)):
        whole(ta.ones(2))
    assert seen == ["parts.1.product", "by_name.last.product", "parts.0.product"]


def test_a_module_that_knows_its_owner_is_no_endless_walk() -> None:
    part = Part()
    part.owner = whole = Whole()
    whole.parts.append(part)
    assert [name for name, _ in whole.named_parameters()] == [*NAMES[:4], "parts.2.w", "by_name.last.w"]
    assert whole.eval().parts[2].training is False


class TestState:
    def test_there_and_back(self) -> None:
        whole, state = Whole(), Whole().state_dict()
        assert list(state) == NAMES
        state["parts.1.w"][:] = 7.0  # a copy: the module it came from is another's
        whole.load_state_dict(state)
        assert whole.parts[1].w.numpy().tolist() == [7, 7] and whole.again.w.numpy().tolist() == [1, 1]

    @pytest.mark.parametrize(
        ("change", "kind", "text"),
        [
            (lambda s: s.pop("pair.0"), KeyError, "missing pair.0; unexpected nothing"),
            (lambda s: s.update(more=1), KeyError, "missing nothing; unexpected more"),
            (lambda s: s.update({"parts.0.w": np.ones(3)}), ValueError, r"parts.0.w: expected \(2,\), got \(3,\)"),
        ],
    )
    def test_what_does_not_fit_is_named_and_nothing_is_changed(self, change, kind, text) -> None:
        whole = Whole()
        state = {name: array + 1 for name, array in whole.state_dict().items()}
        change(state)
        with pytest.raises(kind, match=text):
            whole.load_state_dict(state)
        assert whole.again.w.numpy().tolist() == [1, 1]


def test_a_new_dtype_and_gradients_forgotten() -> None:
    part = Part()
    part(ta.ones(2)).sum().backward()
    part.zero_grad()
    assert part.w.grad is None
    part.astype("float64")
    part(ta.Tensor(np.ones(2))).sum().backward()
    assert part.w.requires_grad and part.w.dtype == part.w.grad.dtype == np.float64


def test_an_unknown_device_leaves_the_gradients() -> None:
    part = Part()
    part(ta.ones(2)).sum().backward()
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        part.to("tpu")
    assert part.w.grad is not None


def test_layers_at_their_edges() -> None:
    assert ta.nn.Linear(0, 3)(ta.zeros((2, 0))).numpy().tolist() == [[0] * 3] * 2
    with pytest.raises(ValueError, match=r"Dropout: expected a rate between 0 and 1, got 2.0"):
        ta.nn.Dropout(2.0)


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Module has no forward method"):
        ta.Module()()


@pytest.mark.parametrize("recording", [True, False])
def test_what_forward_keeps_is_no_parameter(recording) -> None:
    """Keeping the attention map as an attribute is the commonest idiom; it must not end up in the weights."""

    class Keeps(ta.Module):
        def __init__(self) -> None:
            self.W, self.mean = ta.ones((2, 2), requires_grad=True), ta.zeros(2)

        def forward(self, x):
            self.map = ta.softmax(x @ self.W)
            self.maps = [self.map]
            return self.map.sum()

    model = Keeps()
    names = list(model.state_dict())
    with contextlib.nullcontext() if recording else ta.no_grad():
        model(ta.ones((3, 2)))
    assert list(model.state_dict()) == names == ["W", "mean"] and model.map.shape == (3, 2)
    Keeps().load_state_dict(model.state_dict())
    ta.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    assert model.astype("float64").W.dtype == "float64"
