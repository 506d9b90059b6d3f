"""What the lesson on three projections claims of W_Q, W_K, W_V, W_O, with its numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from wide import tokens, wide

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching

MHA = ta.nn.MultiHeadAttention


def test_the_table_of_parameters():
    table = ta.nn.count_parameters(MHA(64, 4, seed=0))
    assert table["Q, K, V"].a_head == 3072
    assert table["Q, K, V"].weights == 12_288
    assert table["W_O"].weights == 4096
    assert table.total == table["total"].weights == 16_384
    assert all(n in str(table) for n in ("3,072", "12,288", "4,096", "16,384"))
    assert str(ta.nn.count_parameters(MHA(64, 4, seed=0, packed=True))) == str(table)
    with pytest.raises(KeyError, match="W_O"):
        table["W_X"]


def test_the_table_of_variants():
    count = lambda **settings: ta.nn.count_parameters(MHA(64, 4, seed=0, **settings))
    assert count(tie="qk")["W_Q = W_K"].weights == 4096 and count(tie="qk").total == 12_288
    assert count(tie="kv")["Q, K, V"].a_head == 2048
    assert count(tie="qkv").total == 8192
    grouped = count(n_kv_heads=2)
    assert grouped["W_K"].heads == 2 and grouped["Q, K, V"].a_head is None and grouped.total == 12_288
    assert count(bias=True).total == 16_384 + 3 * 64 + 64
    model = ta.nn.MiniGPT(65, 64)
    table = ta.nn.count_parameters(model)
    assert table.total == sum(p.size for p in model.parameters())
    assert table["blocks.3.attn.W_Q"].shape == (64, 64)


def test_shapes_no_biases_and_sigma():
    mha = MHA(64, 4, seed=0)
    assert [name for name, _ in mha.named_parameters()] == ["W_Q", "W_K", "W_V", "W_O"]
    for W in mha.parameters():
        assert W.shape == (64, 64) and W.dtype == np.float32
        assert_allclose(W.numpy().std(), 0.02, rtol=0.05)
        assert abs(W.numpy().mean()) < 0.001


def test_same_seed_same_bits():
    for a, b in zip(MHA(64, 4, 7).parameters(), MHA(64, 4, 7).parameters()):
        assert_array_equal(a.data, b.data)
    assert (MHA(64, 4, 7).W_Q.data != MHA(64, 4, 8).W_Q.data).any()


def test_tied_queries_and_keys_make_scores_symmetric_and_weights_not():
    seen = {}
    x = tokens(6, 8)
    for tie in (None, "qk"):
        with watching(lambda name, value, tie=tie: seen.update({(tie, name): value.numpy()})):
            wide(MHA(8, 2, 0, tie=tie, attention="explicit"))(x)
    asymmetry = lambda S: np.abs(S - S.swapaxes(-1, -2)).max()
    assert asymmetry(seen[None, "scores"]) > 0.1
    assert asymmetry(seen["qk", "scores"]) < 1e-14
    assert asymmetry(seen["qk", "weights"]) > 0.01


def test_the_bilinear_form_has_rank_d_k_and_the_tied_one_is_positive_semidefinite():
    for tie, head in itertools.product((None, "qk"), range(4)):
        mha = wide(MHA(64, 4, 0, tie=tie))
        columns = slice(16 * head, 16 * head + 16)
        M = mha.W_Q.numpy()[:, columns] @ mha.W_K.numpy()[:, columns].T
        assert np.linalg.matrix_rank(M) == 16
        eigenvalues = np.linalg.eigvalsh((M + M.T) / 2)
        assert (eigenvalues.min() >= -1e-12) == (tie == "qk")


def test_four_heads_are_one_wide_matrix():
    """Per-head matrices (64 x 16) and one concatenated W_QKV (64 x 192): equal outputs and gradients."""
    one = wide(MHA(64, 4, 0, packed=True))
    x = tokens(10, 64)
    heads = [
        [ta.Tensor(one.W_QKV.numpy()[:, 64 * part + 16 * h :][:, :16], requires_grad=True) for part in range(3)]
        for h in range(4)
    ]
    W_O = ta.Tensor(one.W_O.numpy(), requires_grad=True)
    mixes = [ta.scaled_dot_product_attention(*(x @ W for W in head))[0] for head in heads]
    out = ta.concatenate(mixes, axis=-1) @ W_O
    assert_allclose(one(x).numpy(), out.numpy(), rtol=1e-11, atol=1e-12)
    (one(x) ** 2).sum().backward()
    (out**2).sum().backward()
    joined = np.concatenate([head[part].grad.numpy() for part in range(3) for head in heads], axis=1)
    assert one.W_QKV.shape == joined.shape == (64, 192)
    assert_allclose(one.W_QKV.grad.numpy(), joined, rtol=1e-9, atol=1e-9)
    assert_allclose(one.W_O.grad.numpy(), W_O.grad.numpy(), rtol=1e-9, atol=1e-9)
