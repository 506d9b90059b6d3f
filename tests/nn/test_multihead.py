"""Multi-head attention: every option, and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from wide import tokens, wide

import tinygrad_attn as ta

MHA = ta.nn.MultiHeadAttention


# ---------------------------------------------------------------------------- what it computes


def by_hand(mha, x, context=None, keep=True):
    """Head by head, each from its own columns of the matrices."""
    context = x if context is None else context
    out = 0
    for h in range(mha.n_heads):
        g = h // (mha.n_heads // mha.n_kv_heads)
        q = x @ mha.W_Q.numpy()[:, h * mha.d_k : (h + 1) * mha.d_k]
        k = context @ mha.W_K.numpy()[:, g * mha.d_k : (g + 1) * mha.d_k]
        v = context @ mha.W_V.numpy()[:, g * mha.d_v : (g + 1) * mha.d_v]
        s = np.where(keep, q @ np.swapaxes(k, -1, -2) / np.sqrt(mha.d_k), -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        out = out + e / e.sum(-1, keepdims=True) @ v @ mha.W_O.numpy()[h * mha.d_v : (h + 1) * mha.d_v]
    return out


OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "d_v != d_k": {"d_k": 3, "d_v": 5},
    "grouped": {"n_kv_heads": 2},
    "one kv head": {"n_kv_heads": 1, "d_k": 3},
    "q = k": {"tie": "qk"},
    "k = v": {"tie": "kv"},
    "q = k = v": {"tie": "qkv"},
}


@pytest.mark.parametrize("attention", ["explicit", "fused"])
@pytest.mark.parametrize("name", OPTIONS)
def test_equals_the_heads_one_by_one(name, attention):
    mha = wide(MHA(8, 4, 0, attention=attention, **OPTIONS[name]))
    x = tokens(2, 5, 8)
    keep = np.tri(5, dtype=bool) if mha.causal else True
    assert_allclose(mha(x).numpy(), by_hand(mha, x.numpy(), keep=keep), rtol=1e-12, atol=1e-13)
    assert_allclose(mha(x[0]).numpy(), by_hand(mha, x.numpy()[0], keep=keep), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_to_order_two(name):
    mha = wide(MHA(4, 2, 0, **{"n_kv_heads": 2, **OPTIONS[name]} if "kv" not in name else {"n_kv_heads": 1}))
    names = [name for name, _ in mha.named_parameters()]
    arrays = [parameter.numpy() for parameter in mha.parameters()]

    def run(x, *weights):
        for name, W in zip(names, weights):
            setattr(mha, name, W)
        if mha.tie in ("qk", "qkv"):
            mha.W_K = mha.W_Q
        if mha.tie in ("kv", "qkv"):
            mha.W_V = mha.W_K
        return mha(x)

    ta.testing.check_grads(run, np.random.default_rng(0).standard_normal((2, 4)), *arrays, order=2, rtol=1e-5)


@pytest.mark.parametrize("cross", [False, True])
def test_packed_holds_the_same_numbers(cross):
    x = tokens(2, 5, 8)
    context = tokens(2, 3, 8) if cross else None
    three, one = MHA(8, 2, 5, d_k=3, d_v=5), MHA(8, 2, 5, d_k=3, d_v=5, packed=True)
    joined = np.concatenate([three.W_Q.numpy(), three.W_K.numpy(), three.W_V.numpy()], axis=1)
    assert_array_equal(one.W_QKV.numpy(), joined)
    assert_array_equal(one.W_O.numpy(), three.W_O.numpy())
    outs = [mha.astype(np.float64)(x, context) for mha in (three, one)]
    assert_allclose(outs[0].numpy(), outs[1].numpy(), rtol=1e-12)
    for out in outs:
        (out * np.cos(np.arange(out.size)).reshape(out.shape)).sum().backward()
    grads = np.concatenate([W.grad.numpy() for W in (three.W_Q, three.W_K, three.W_V)], axis=1)
    assert_allclose(one.W_QKV.grad.numpy(), grads, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("tie, users", [("qk", "QK"), ("kv", "KV"), ("qkv", "QKV")])
def test_tied_matrices_accumulate_their_gradients(tie, users):
    x = tokens(5, 8)
    tied, free = wide(MHA(8, 2, 0, tie=tie)), wide(MHA(8, 2, 0))
    for name in "QKVO":
        getattr(free, f"W_{name}").data = getattr(tied, f"W_{name}").numpy()
    for mha in (tied, free):
        (mha(x) ** 2).sum().backward()
    total = sum(getattr(free, f"W_{name}").grad.numpy() for name in users)
    shared = tied.W_Q if "Q" in users else tied.W_K
    assert_allclose(shared.grad.numpy(), total, rtol=1e-11, atol=1e-14)


def test_cross_attention():
    mha = wide(MHA(8, 2, 0))
    x, context = tokens(2, 3, 8), tokens(2, 7, 8)
    out, weights = mha(x, context, return_weights=True)
    assert weights.shape == (2, 2, 3, 7)
    assert_allclose(out.numpy(), by_hand(mha, x.numpy(), context.numpy()), rtol=1e-12)
    out.sum().backward()
    assert x.grad.shape == x.shape and context.grad.shape == context.shape


def test_weights_on_request_and_no_bit_changes():
    mha, x = MHA(8, 2, 0, causal=True, attention="explicit"), tokens(2, 5, 8).astype(np.float32)
    out, weights = mha(x, return_weights=True)
    assert_array_equal(out.data, mha(x).data)
    assert weights.shape == (2, 2, 5, 5)
    assert_allclose(weights.numpy().sum(-1), 1, rtol=1e-6)
    assert_array_equal(weights.numpy() * ~np.tri(5, dtype=bool), 0)


def test_masks_of_every_shape():
    mha, x = wide(MHA(8, 2, 0)), tokens(3, 5, 8)
    keys = ta.padding_mask([2, 5, 3], 5)  # (B, 1, n)
    square = np.tri(5, dtype=bool)
    per_head = np.stack([square, np.ones((5, 5), bool)])
    shown = lambda mask: mha(x, mask=mask, return_weights=True)[1].numpy() > 0
    for mask in (keys, keys.tolist(), keys.astype(int), ta.Tensor(keys)):
        assert_array_equal(shown(mask), np.broadcast_to(keys[:, None], (3, 2, 5, 5)))
    assert_array_equal(shown(square), np.broadcast_to(square, (3, 2, 5, 5)))
    assert_array_equal(shown(keys & square), np.broadcast_to((keys & square)[:, None], (3, 2, 5, 5)))
    assert_array_equal(shown(per_head[None]), np.broadcast_to(per_head, (3, 2, 5, 5)))
    alone = mha(x[0, :2])
    assert_allclose(mha(x, mask=keys).numpy()[0, :2], alone.numpy(), rtol=1e-12)


@pytest.mark.parametrize("attention", ["explicit", "fused"])
def test_dropout_only_while_training(attention):
    mha, x = MHA(8, 2, 0, dropout=0.5, attention=attention), tokens(2, 5, 8)
    ta.manual_seed(0)
    first, second = mha(x).numpy(), mha(x).numpy()
    assert (first != second).any()
    ta.manual_seed(0)
    assert_array_equal(mha(x).numpy(), first)
    mha.eval()
    assert_array_equal(mha(x).numpy(), mha(x).numpy())
    _, weights = mha(x, return_weights=True)
    assert_allclose(weights.numpy().sum(-1), 1, rtol=1e-6)


# ---------------------------------------------------------------------------- causality and the cache


@pytest.mark.parametrize("attention", ["explicit", "fused"])
@pytest.mark.parametrize(
    "settings", [{}, {"n_kv_heads": 1}, {"tie": "qkv"}, {"packed": True, "bias": True}, {"scale": 1.0}], ids=str
)
def test_no_gradient_from_the_future(settings, attention):
    mha = wide(MHA(8, 4, 0, causal=True, attention=attention, **settings))
    for t in range(6):
        x = tokens(6, 8)
        (mha(x)[t] ** 2).sum().backward()
        assert_array_equal(x.grad.numpy()[t + 1 :], 0)
        assert (np.abs(x.grad.numpy()[: t + 1]).max(-1) > 0).all()


@pytest.mark.parametrize("attention", ["explicit", "fused"])
@pytest.mark.parametrize("chunks", [[1] * 6, [4, 1, 1], [2, 4], [6]], ids=str)
@pytest.mark.parametrize("settings", [{}, {"n_kv_heads": 2}, {"packed": True}], ids=str)
def test_cache_decoding_equals_the_full_pass(settings, chunks, attention):
    mha = wide(MHA(8, 4, 0, causal=True, attention=attention, **settings))
    x, y = tokens(2, 6, 8), tokens(2, 6, 8)
    cache = ta.nn.KVCache()
    edges = np.cumsum([0, *chunks])
    parts = ta.concatenate([mha(y[:, a:b], cache=cache) for a, b in itertools.pairwise(edges)], axis=1)
    full = mha(x)
    assert len(cache) == 6
    assert_allclose(parts.numpy(), full.numpy(), rtol=1e-12, atol=1e-14)
    for out in (parts, full):
        (out * np.cos(np.arange(out.size)).reshape(out.shape)).sum().backward()
    assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-10, atol=1e-13)


# ---------------------------------------------------------------------------- what it refuses


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"n_heads": 3}, "n_heads must divide d_model, got d_model = 8 and n_heads = 3"),
        ({"n_heads": 0}, "n_heads must divide"),
        ({"n_kv_heads": 3}, "n_kv_heads must divide n_heads"),
        ({"tie": "kq"}, "tie: expected None"),
        ({"tie": "qk", "packed": True}, "exclude each other"),
        ({"tie": "qk", "n_kv_heads": 2}, "equal widths"),
        ({"tie": "kv", "d_k": 3}, "equal widths"),
        ({"d_k": 0}, "positive widths"),
        ({"d_model": -8}, "positive widths"),
        ({"dropout": 1.5}, "a dropout from 0 to 1"),
        ({"attention": "flash"}, 'expected "fused" or "explicit"'),
    ],
)
def test_bad_settings(settings, text):
    with pytest.raises(ValueError, match=text):
        MHA(**{"d_model": 8, "n_heads": 4, "seed": 0, **settings})


def test_bad_calls():
    mha = MHA(8, 2, 0, causal=True)
    x = ta.randn(2, 5, 8)
    with pytest.raises(ValueError, match=r"expected x \(..., n, d_model = 8\), got \(2, 5, 7\)"):
        mha(ta.randn(2, 5, 7))
    with pytest.raises(ValueError, match=r"expected x \(..., n, d_model = 8\), got list"):
        mha([[1.0] * 8])
    with pytest.raises(ValueError, match=r"expected context \(..., n, d_model = 8\)"):
        mha(x, ta.randn(2, 5, 7))
    with pytest.raises(ValueError, match="n_q = 5 and n_k = 3"):
        mha(x, ta.randn(2, 3, 8))
    with pytest.raises(TypeError, match="bias="):
        mha(x, mask=np.ones((5, 5)))
    with pytest.raises(ValueError, match="cache is for self-attention"):
        mha(x, x, cache=ta.nn.KVCache())
    cache = ta.nn.KVCache(capacity=6)
    mha(x, cache=cache)
    with pytest.raises(ValueError, match="holds 6 positions; 5 are in it and 2 more came"):
        mha(x[:, :2], cache=cache)
    with pytest.raises(ValueError, match="new cache for each batch"):
        mha(x[:1, :1], cache=cache)
    assert len(cache) == 5 and repr(cache) == "KVCache(5 positions of 6)"
