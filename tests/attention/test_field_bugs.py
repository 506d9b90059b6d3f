"""Bugs of attention code in the field, one input each; the numbers are closed forms, checked by differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta

rng = np.random.default_rng(0)


def leaf(x):
    return ta.Tensor(np.asarray(x, np.float64), requires_grad=True)


def test_case_a1_a_row_without_keys_does_not_poison_the_shared_projection():
    x, W = leaf([[1, 0.5], [-1, 2], [0.3, -0.7]]), leaf([[0.2, -0.4], [0.7, 0.1]])
    h = x @ W
    out, weights = ta.scaled_dot_product_attention(h, h, h, mask=[[1, 0, 0], [0, 0, 0], [1, 0, 1]])
    (out[[0, 2]] * np.array([[1, 2], [-1, 0.5]])).sum().backward()
    assert_allclose(out.numpy(), [[0.55, -0.35], [0, 0], [-0.00730908, -0.25901076]], atol=5e-9)
    assert_allclose(W.grad.numpy(), [[0.39936485, 2.33423744], [0.90340399, 0.93011667]], atol=5e-9)
    assert_allclose(x.grad.numpy(), [[-0.77068843, 0.67847498], [0, 0], [-0.27711192, -0.55165281]], atol=5e-9)
    assert_array_equal(weights.numpy()[1], 0)


def test_case_a5_float16_scores_do_not_overflow():
    q = np.full((1, 64), 32.0)
    k = np.repeat(q, 2, axis=0)
    k[1, 0] = 31.0
    q, k = ta.Tensor(q, True, dtype="float16"), ta.Tensor(k, True, dtype="float16")
    out, weights = ta.scaled_dot_product_attention(q, k, ta.Tensor([[1.0], [0.0]], dtype="float16"))
    out.sum().backward()
    assert out.dtype == weights.dtype == q.grad.dtype == np.float16
    assert_allclose(weights.numpy(), [[0.98201379, 0.01798621]], rtol=2e-3)
    assert_allclose(q.grad.numpy()[0, 0], 0.00220784, rtol=2e-3)
    assert_array_equal(q.grad.numpy()[0, 1:], 0)


def test_case_j1_the_corner_must_be_said():
    q, k, v = np.zeros((2, 1)), np.zeros((4, 1)), leaf([[1.0], [2], [4], [8]])
    with pytest.raises(ValueError, match=r"n_q = 2 and n_k = 4.*bottom-right"):
        ta.scaled_dot_product_attention(q, k, v, causal=True)
    out, _ = ta.scaled_dot_product_attention(q, k, v, causal="bottom-right")
    out.sum().backward()
    assert_allclose(out.numpy()[:, 0], [7 / 3, 3.75])
    assert_allclose(v.grad.numpy()[:, 0], [0.58333333, 0.58333333, 0.58333333, 0.25], atol=5e-9)
    v.grad = None
    out, _ = ta.scaled_dot_product_attention(q, k, v, causal="top-left")
    out.sum().backward()
    assert_allclose(out.numpy()[:, 0], [1, 1.5])
    assert_allclose(v.grad.numpy()[:, 0], [1.5, 0.5, 0, 0])
    for corner, right in (("bottom-right", 3.75), ("top-left", 1.0)):
        assert ta.scaled_dot_product_attention(q[:1], k, v, causal=corner)[0].item() == right
        assert_array_equal(ta.causal_mask(2, 4, corner), np.tri(2, 4, 2 if corner == "bottom-right" else 0, dtype=bool))
    tall, _ = ta.scaled_dot_product_attention(np.zeros((3, 1)), k[:2], v[:2], causal="bottom-right")
    assert_allclose(tall.numpy()[:, 0], [0, 1, 1.5])


def test_case_j2_true_means_may_attend():
    q, v = np.zeros((3, 1)), np.array([[1.0], [2], [4]])
    keep = np.tri(3, dtype=bool)
    for mask in (keep, keep.astype(int), keep.tolist(), ta.Tensor(keep)):
        assert_allclose(ta.scaled_dot_product_attention(q, q, v, mask)[0].numpy()[:, 0], [1, 1.5, 7 / 3])
    with pytest.raises(TypeError, match="bias="):
        ta.scaled_dot_product_attention(q, q, v, keep.astype(float))
    with pytest.raises(ValueError, match="0 and 1"):
        ta.scaled_dot_product_attention(q, q, v, keep * 2)
    bias = np.where(keep, 0.0, -np.inf)
    assert_allclose(ta.scaled_dot_product_attention(q, q, v, bias=bias)[0].numpy()[:, 0], [1, 1.5, 7 / 3])


def test_case_j4_d_v_is_not_d_k():
    q, k, v = leaf([[1, 2]]), leaf(np.eye(2)), leaf([[1, 0, 2], [3, 1, 0]])
    out, p = ta.scaled_dot_product_attention(q, k, v)
    (out * np.array([[1.0, -1, 2]])).sum().backward()
    assert_allclose(p.numpy(), [[0.33023845, 0.66976155]], atol=5e-9)
    assert_allclose(out.numpy(), [[2.3395231, 0.66976155, 0.6604769]], atol=5e-8)
    assert_allclose(q.grad.numpy(), [[0.46919579, -0.46919579]], atol=5e-9)
    assert_allclose(k.grad.numpy(), [[0.46919579, 0.93839158], [-0.46919579, -0.93839158]], atol=5e-9)
    assert_allclose(
        v.grad.numpy(), [[0.33023845, -0.33023845, 0.6604769], [0.66976155, -0.66976155, 1.3395231]], atol=5e-8
    )
    uniform, _ = ta.scaled_dot_product_attention(q, k, v, scale=0)
    assert_allclose(uniform.numpy(), [[2, 0.5, 1]])


def test_case_j5_dropout_on_weights(monkeypatch):
    """p = [.5, .3, .2], kept [1, 0, 1], rate 0.2: the weights shown are those before dropout."""
    from tinygrad_attn.attention import dropout as pattern

    monkeypatch.setattr(pattern, "bits", lambda *_: np.array([[2**32 - 1, 0, 2**32 - 1]], np.uint32))
    v, scores = leaf([[1.0], [2], [4]]), leaf(np.log([[0.5, 0.3, 0.2]]))
    out, weights = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), v, bias=scores, dropout=0.2)
    weights.retain_grad()
    out.sum().backward()
    assert_allclose(out.item(), 1.625)
    assert_allclose(weights.numpy(), [[0.5, 0.3, 0.2]])
    assert_allclose(v.grad.numpy()[:, 0], [0.625, 0, 0.25])
    assert_allclose(weights.grad.numpy(), [[1.25, 0, 5]])
    out, _ = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), v, bias=scores)
    assert_allclose(out.item(), 1.9)
    out, _ = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), v, dropout=1.0)
    v.grad = None
    out.sum().backward()
    assert out.item() == 0 and not v.grad.numpy().any()


def test_case_j8_rows_sum_to_one_not_columns():
    s, v = np.array([[0.0, 1], [2, 0]]), np.array([[1.0], [10]])
    out, p = ta.scaled_dot_product_attention(np.eye(2), s.T, v, scale=1.0)
    assert_allclose(out.numpy()[:, 0], [7.57952721, 2.0728263], atol=5e-8)
    assert_allclose(p.numpy().sum(-1), 1)
    z = leaf([[1.0, 2, 3]])
    out, p = ta.scaled_dot_product_attention(
        np.ones((1, 1)), np.zeros((3, 1)), np.array([[1.0], [2], [4]]), [1, 1, 0], bias=z
    )
    out.sum().backward()
    assert_allclose(p.numpy(), [[0.26894142, 0.73105858, 0]], atol=5e-9)
    assert_allclose(z.grad.numpy(), [[-0.19661193, 0.19661193, 0]], atol=5e-9)
