"""Counts against what can be counted by hand."""

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.lab.counting import count, fitted_exponent


def inputs(*shapes):
    return [ta.Tensor(np.ones(shape), requires_grad=True) for shape in shapes]


def test_attention_by_hand():
    q, k, v = inputs((5, 3), (7, 3), (7, 2))
    out, _ = ta.scaled_dot_product_attention(q, k, v)
    found = count(out)
    # q k^T: 2*5*7*3; scale: 35; softmax: 4*35; weights v: 2*5*2*7
    assert found.operations == 210 + 35 + 140 + 140
    # kept: q, k, v and the weights, 8 bytes each
    assert found.bytes == 8 * (15 + 21 + 14 + 35)
    assert found.products == 2


def test_a_product_with_a_constant_on_either_side():
    (x,) = inputs((4, 3))
    assert count(x @ np.ones((3, 2))).operations == 2 * 4 * 2 * 3
    assert count(np.ones((2, 4)) @ x).operations == 2 * 2 * 3 * 4


def test_additive_keeps_a_hidden_layer_for_every_pair():
    q, k, v, W_q, W_k, w = inputs((5, 3), (7, 3), (7, 2), (3, 11), (3, 11), (11,))
    out, _ = ta.additive_attention(q, k, v, W_q, W_k, w)
    assert count(out).bytes >= 8 * 5 * 7 * 11


def test_a_constant_has_nothing_to_count():
    with pytest.raises(ValueError, match="no graph"):
        count(ta.ones(2))


def test_exponents():
    assert fitted_exponent([2, 4, 8], [3 * 8, 3 * 64, 3 * 512]) == pytest.approx(3.0)
