"""Copies of tensors, modules and optimisers, and what must not be shared between a leaf and the rest."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tinygrad_attn as ta

WAYS = [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]


def weights() -> ta.Tensor:
    return ta.Tensor([[1.0, 2.0]], requires_grad=True).named("W")


@pytest.mark.parametrize("way", [*WAYS, copy.copy])
def test_a_leaf(way) -> None:
    W = weights()
    (W * W).sum().backward()
    other = way(W)
    assert other.requires_grad and other.name == "W" and other.is_leaf
    assert other.grad.numpy().tolist() == [[2, 4]] and not np.shares_memory(other._data, W._data)
    (other * 3).sum().backward()
    assert W.grad.numpy().tolist() == [[2, 4]] and other.grad.numpy().tolist() == [[5, 7]]


@pytest.mark.parametrize("way", WAYS)
def test_a_constant_keeps_its_dtype(way) -> None:
    for data in (np.ones(2), np.arange(3), [True]):
        assert way(ta.Tensor(data)).dtype == ta.Tensor(data).dtype and not way(ta.Tensor(data)).requires_grad


@pytest.mark.parametrize("way", WAYS)
def test_a_computed_tensor_has_no_copy(way) -> None:
    with pytest.raises(TypeError, match=r"a tensor with a graph \(op=mul\) has no copy; write x.detach\(\)"):
        way(weights() * 2)


@pytest.mark.parametrize("way", WAYS)
def test_a_module_with_tied_weights(way) -> None:
    mha = ta.nn.MultiHeadAttention(8, 2, seed=0, tie="qk")
    other = way(mha)
    assert other.W_Q is other.W_K and len(other.parameters()) == 3
    x = ta.ones((3, 8))
    assert (other(x).data == mha(x).data).all()
    other(x).sum().backward()
    assert mha.W_Q.grad is None and other.W_Q.grad is not None


@pytest.mark.parametrize("way", WAYS)
def test_an_optimiser_goes_on_from_where_it_was_with_its_own_parameters(way) -> None:
    def step(W: ta.Tensor, optimiser: ta.optim.Optimizer) -> None:
        optimiser.zero_grad()
        (W * W).sum().backward()
        optimiser.step()

    W = weights()
    optimiser = ta.optim.Adam([W], lr=0.1)
    step(W, optimiser)
    V, other = way((W, optimiser))
    assert other.params[0] is V
    step(V, other)
    assert W.numpy().tolist() == [[pytest.approx(0.9), pytest.approx(1.9)]]
    step(W, optimiser)
    assert (W.data == V.data).all() and W.numpy()[0, 0] < 0.85


def test_a_leaf_is_detached_as_a_copy() -> None:
    """An optimiser edits a leaf where it lies: the detached values, and what was made of them, stay as they were."""
    W = weights()
    optimiser = ta.optim.SGD([W], lr=1.0)
    fixed = W.detach()
    loss = (fixed * W).sum()
    W.grad = [[1.0, 1.0]]
    optimiser.step()
    optimiser.zero_grad()
    loss.backward()
    assert fixed.numpy().tolist() == [[1, 2]] and W.grad.numpy().tolist() == [[1, 2]]


def test_an_edit_by_astype_is_noticed() -> None:
    layer = ta.nn.Linear(2, 2, seed=0)
    loss = (layer(ta.ones((1, 2))) ** 2).sum() * layer.W.sum() + (layer.W * layer.W).sum()
    layer.astype("float64")
    with pytest.raises(RuntimeError, match="data edited between forward and backward"):
        loss.backward()


def test_every_operator_in_place_keeps_the_leaf_under_no_grad() -> None:
    x = ta.Tensor([2.0, 3.0], requires_grad=True)
    y = x
    with ta.no_grad():
        y **= 2
        y @= np.array([[1.0, 0.0], [0.0, 2.0]])
    assert y is x and x.requires_grad and x.numpy().tolist() == [4, 18]
    with pytest.raises(RuntimeError, match=r"x \*\*= ... would replace a leaf"):
        x **= 2
