"""Additive attention: the formula, and the same masking as the dot product."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching

rng = np.random.default_rng(0)


def arrays(n_q=2, n_k=3, d_q=2, d_k=3, d_a=4, d_v=2, batch=()):
    shapes = [(*batch, n_q, d_q), (*batch, n_k, d_k), (*batch, n_k, d_v), (d_q, d_a), (d_k, d_a), (d_a,)]
    return [np.random.default_rng(1).standard_normal(s) for s in shapes]


def leaves(*values):
    return [ta.Tensor(x, requires_grad=True) for x in values]


def test_is_the_formula_pair_by_pair():
    q, k, v, W_q, W_k, w = arrays(batch=(2,))
    out, weights = ta.additive_attention(q, k, v, W_q, W_k, w)
    for b in range(2):
        for i in range(2):
            scores = np.array([w @ np.tanh(q[b, i] @ W_q + k[b, j] @ W_k) for j in range(3)])
            p = np.exp(scores) / np.exp(scores).sum()
            assert_allclose(weights.numpy()[b, i], p, rtol=1e-12)
            assert_allclose(out.numpy()[b, i], p @ v[b], rtol=1e-12)


def test_names_and_shapes():
    seen = []
    with watching(lambda name, x: seen.append((name, x.shape))):
        ta.additive_attention(*leaves(*arrays()), causal="bottom-right")
    names = ["q", "k", "v", "hidden", "scores", "masked", "weights", "mix"]
    shapes = [(2, 2), (3, 3), (3, 2), (2, 3, 4), (2, 3), (2, 3), (2, 3), (2, 2)]
    assert seen == list(zip(names, shapes))


@pytest.mark.parametrize(
    "settings",
    [{}, {"mask": [[1, 0, 1], [0, 0, 0]]}, {"causal": "bottom-right"}, {"causal": "top-left", "mask": [1, 1, 0]}],
    ids=str,
)
def test_gradients_to_order_two(settings):
    ta.testing.check_grads(lambda *a: ta.additive_attention(*a, **settings), *arrays(d_a=2), order=2, rtol=1e-5)


@pytest.mark.parametrize("sizes", [{"n_k": 0}, {"n_q": 0}, {"n_q": 1, "n_k": 1}], ids=str)
def test_empty_and_single(sizes):
    ta.testing.check_grads(ta.additive_attention, *arrays(d_a=2, **sizes), order=1)


def test_nan_behind_the_mask_stays_there():
    clean = arrays()
    dirty = [x.copy() for x in clean]
    dirty[1][1] = dirty[2][1] = np.nan  # key 1: nobody sees it
    dirty[0][1] = np.nan  # query 1: sees nothing
    found = []
    for values in (clean, dirty):
        tensors = leaves(*values)
        out, _ = ta.additive_attention(*tensors, mask=[[1, 0, 1], [0, 0, 0]])
        (out * np.array([[1.0, 2], [3, 4]])).sum().backward()
        found.append([out.numpy(), *(x.grad.numpy() for x in tensors)])
    for right, got in zip(*found):
        assert_allclose(got, right, rtol=1e-12)


def test_takes_the_place_of_the_dot_product():
    q, k, v, W_q, W_k, w = arrays(d_q=3)
    for attend in (ta.scaled_dot_product_attention, partial(ta.additive_attention, W_q=W_q, W_k=W_k, w=w)):
        out, weights = attend(q, k, v, mask=[1, 0, 1], causal="bottom-right")
        assert out.shape == (2, 2) and weights.shape == (2, 3)
        assert_array_equal(weights.numpy()[:, 1], 0)
        assert_allclose(weights.numpy().sum(-1), 1)


def test_float16_scores_are_made_in_float32():
    values = [ta.Tensor(x, dtype="float16") for x in arrays(d_a=64)]
    out, weights = ta.additive_attention(*values)
    assert out.dtype == weights.dtype == np.float16
    assert_allclose(out.numpy(), ta.additive_attention(*(x.astype("float64") for x in values))[0].numpy(), atol=2e-3)


def test_bad_input():
    q, k, v, W_q, W_k, w = arrays()
    with pytest.raises(ValueError, match=r"W_q \(2, d_a\), W_k \(3, d_a\) and w \(d_a,\), got W_q \(3, 4\)"):
        ta.additive_attention(q, k, v, W_k, W_k, w)
    with pytest.raises(ValueError, match="additive_attention: expected k and v with the same number of keys"):
        ta.additive_attention(q, k, v[:2], W_q, W_k, w)
    with pytest.raises(TypeError, match="bias="):
        ta.additive_attention(q, k, v, W_q, W_k, w, np.ones((2, 3)))
