"""Scaled dot-product attention: the lesson's numbers, the field's bugs, the shapes it must take."""

from __future__ import annotations

import numpy as np
import pytest
from attention_written_out import leaf, textbook
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching

rng = np.random.default_rng(0)


def test_worked_example_of_two_tokens():
    """X = I, W_Q = I, W_K = swap, W_V = diag(2, 3)."""
    X, W_Q, W_K, W_V = np.eye(2), np.eye(2), np.eye(2)[::-1], np.diag([2.0, 3.0])
    out, weights = ta.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V, scale=1.0)
    assert_allclose(weights.numpy(), [[0.26894, 0.73106], [0.73106, 0.26894]], atol=5e-6)
    assert_allclose(out.numpy(), [[0.53788, 2.19318], [1.46212, 0.80682]], atol=5e-6)
    out, weights = ta.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V)
    assert_allclose(weights.numpy()[0], [0.33024, 0.66976], atol=5e-6)
    assert_allclose(out.numpy()[0], [0.66048, 2.00928], atol=5e-6)


@pytest.mark.parametrize("d_k, std", [(16, 4.0), (64, 8.0), (256, 16.0), (1024, 32.0)])
def test_score_variance_is_d_k_and_scaling_makes_it_one(d_k, std):
    draws = np.random.default_rng(d_k)
    q, k = draws.standard_normal((500, 1, d_k)), draws.standard_normal((500, 16, d_k))
    seen = {}
    with watching(lambda name, x: seen.update({name: x.numpy()})):
        ta.scaled_dot_product_attention(q, k, np.ones((500, 16, 1)))
    assert abs(seen["scores"].mean()) < 0.05 * std
    assert_allclose(seen["scores"].std(), std, rtol=0.03)
    assert_allclose(seen["scaled"].std(), 1.0, rtol=0.03)


# d_k: std, entropy / log n, median Jacobian norm, median and dead share (< 1e-3) of row norms of dL/dS
UNSCALED = {
    16: (4.0, 0.33, 0.33, 0.185, 0.014),
    64: (8.0, 0.15, 0.11, 0.054, 0.16),
    256: (16.0, 0.07, 6.6e-3, 3.3e-3, 0.43),
    1024: (32.0, 0.035, 1.8e-5, 9e-6, 0.67),
}


@pytest.mark.parametrize("d_k", UNSCALED)
@pytest.mark.parametrize("scaled", [False, True])
def test_saturation_shows_in_the_score_gradient(d_k, scaled):
    """n = 16 keys, q, k, v ~ N(0, 1), d_v = 16, upstream gradient N(0, 1) / sqrt(d_v); 2,000 rows."""
    draws = np.random.default_rng(d_k)
    q, k, v, g = (draws.standard_normal(s) for s in ((2000, 1, d_k), (2000, 16, d_k), (2000, 16, 16), (2000, 1, 16)))
    seen = {}
    with watching(lambda name, x: seen.update({name: x})):
        out, weights = ta.scaled_dot_product_attention(leaf(q), k, v, scale=None if scaled else 1.0)
    at = seen["scaled"]  # the softmax's own input: dL/dS
    at.retain_grad()
    out.backward(g / 4.0)
    p, norms = weights.numpy()[:, 0], np.linalg.norm(at.grad.numpy()[:, 0], axis=-1)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(-1).mean() / np.log(16)
    jacobian = np.sqrt(((p[:, :, None] * (np.eye(16) - p[:, None, :])) ** 2).sum((1, 2)))
    std = at.numpy().std()
    found = np.array([std, entropy, np.median(jacobian), np.median(norms)])
    dead = (norms < 1e-3).mean()
    if scaled:
        assert_allclose(found, [1.0, 0.85, 0.304, 0.26], rtol=0.06)
        assert dead == 0
    else:
        # the smallest medians are set by the far tail of saturated rows: a factor, not a per cent
        assert_allclose(found[:2], UNSCALED[d_k][:2], rtol=0.1)
        assert_allclose(np.log(found[2:]), np.log(UNSCALED[d_k][2:4]), atol=0.7 if d_k == 1024 else 0.3)
        assert abs(dead - UNSCALED[d_k][4]) < 0.03


def test_temperature_moves_the_entropy_from_log_n_to_0():
    q, k = rng.standard_normal((5, 4)), rng.standard_normal((7, 4))

    def entropy(scale):
        p = ta.scaled_dot_product_attention(q, k, np.ones((7, 1)), scale=scale)[1].numpy().astype(np.float64)
        return -(p * np.log(np.maximum(p, 1e-300))).sum(-1)

    assert_allclose(entropy(0.0), np.log(7))
    assert_allclose(entropy(1e6), 0.0, atol=1e-12)
    assert (np.diff([entropy(s).mean() for s in (0, 0.1, 0.5, 1, 4, 50)]) < 0).all()


def test_soft_lookup_becomes_the_hard_one():
    keys, values = np.eye(4), np.array([[3.0], [1.0], [4.0], [1.5]])
    for i in range(4):
        out, _ = ta.scaled_dot_product_attention(keys[i : i + 1], keys, values, scale=1000.0)
        assert out.item() == values[i, 0]


def test_identity_values_return_the_weights_not_a_row():
    """Slip 1: with W_V = I the worked example gives (0.269, 0.731), not V_1."""
    X = np.eye(2)
    out, _ = ta.scaled_dot_product_attention(X, X[::-1], X, scale=1.0)
    assert_allclose(out.numpy()[0], [0.269, 0.731], atol=5e-4)


def test_parameter_free_attention_has_nothing_to_train():
    x = rng.standard_normal((4, 3))
    out, _weights = ta.scaled_dot_product_attention(x, x, x, scale=1.0)
    assert not out.requires_grad
    assert_allclose(out.numpy(), textbook(x, x, x, scale=1.0)[0], rtol=1e-12)
    assert_array_equal(out.shape, (4, 3))


def test_names_in_order_with_shapes_and_gradients():
    q, k, v = (leaf(rng.standard_normal(s)) for s in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))
    seen = []
    with watching(lambda name, x: seen.append((name, x.retain_grad() if x.requires_grad else x))):
        out, _ = ta.scaled_dot_product_attention(q, k, v, mask=np.ones((3, 5), bool))
    out.sum().backward()
    assert [name for name, _ in seen] == ["q", "k", "v", "scores", "scaled", "masked", "weights", "mix"]
    shapes = [x.shape for _, x in seen]
    assert shapes == [(2, 3, 4), (2, 5, 4), (2, 5, 6), *[(2, 3, 5)] * 4, (2, 3, 6)]
    assert all(x.grad.shape == x.shape for _, x in seen)


def test_all_scores_come_from_one_product():
    q = leaf(rng.standard_normal((6, 4)))
    out, _ = ta.scaled_dot_product_attention(q, q, q)
    names = [step.node.op.name for step in ta.steps(out.sum()) if step.node.op.name != "leaf"]
    assert names.count("matmul") == 2  # q k^T, and weights v


def test_the_jacobian_of_softmax_is_p_i_delta_ij_minus_p_j():
    x = rng.standard_normal(5)
    p = ta.softmax(ta.Tensor(x)).numpy()
    assert_allclose(ta.jacobian(ta.softmax, x).numpy(), np.diag(p) - np.outer(p, p), rtol=1e-12, atol=1e-15)
