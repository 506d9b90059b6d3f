"""Faults of attention: scales, masks, axes, dead heads."""

import math

import numpy as np

import tinygrad_attn as ta

from .drawn import draw, weight


def projected(d_model=32, heads=4, n=8, batch=3, seed=0):
    """x, the parameters and a function x -> q, k, v (batch, heads, n, d_k) of unit variance."""
    x = draw(batch, n, d_model, seed=seed)
    params = {
        name: weight(d_model, d_model, seed=i, scale=d_model**-0.5) for i, name in enumerate(("W_Q", "W_K", "W_V"))
    }

    def heads_of(W):
        return (x @ W).reshape(batch, n, heads, d_model // heads).swapaxes(1, 2)

    return x, params, lambda: [heads_of(W) for W in params.values()]


def scaled_by_d_model():
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        scores = q @ k.mT / math.sqrt(32)  # FAULT
        out = ta.softmax(scores) @ v
        return (out * out).mean()

    return loss, params


def not_scaled():
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        scores = q @ k.mT  # FAULT
        out = ta.softmax(scores) @ v
        return (out * out).mean()

    return loss, params


def scaled_without_the_root():
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        scores = (q @ k.mT) * (1 / 8)  # FAULT
        out = ta.softmax(scores) @ v
        return (out * out).mean()

    return loss, params


def scaled_by_d_model_in_fused_attention():
    _, params, qkv = projected()

    def loss():
        out = ta.fused_attention(*qkv(), scale=32**-0.5)  # FAULT
        return (out * out).mean()

    return loss, params


def scaled_by_d_model_with_einsum():
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        scores = ta.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(32)  # FAULT
        out = ta.einsum("bhqk,bhkd->bhqd", ta.softmax(scores), v)
        return (out * out).mean()

    return loss, params


def scaled_by_d_model_in_every_layer():
    model = ta.nn.MiniGPT(20, 16, d_model=32, n_heads=4, n_layers=2, seed=0, scale=32**-0.5)
    tokens = np.random.default_rng(0).integers(0, 20, (4, 17))

    def loss():
        return ta.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])  # FAULT

    return loss, model


def inverted_causal_mask():
    _, params, qkv = projected()

    def loss():
        out, _ = ta.scaled_dot_product_attention(*qkv(), mask=~ta.causal_mask(8))  # FAULT
        return (out * out).mean()

    return loss, params


def causal_mask_upside_down():
    _, params, qkv = projected()

    def loss():
        out, _ = ta.scaled_dot_product_attention(*qkv(), mask=ta.causal_mask(8).T)  # FAULT
        return (out * out).mean()

    return loss, params


def masked_fill_with_keep():
    _, params, qkv = projected()
    keep = ta.causal_mask(8)

    def loss():
        q, k, v = qkv()
        scores = ta.masked_fill(q @ k.mT / math.sqrt(8), keep, -math.inf)  # FAULT
        out = ta.softmax(scores) @ v
        return (out * out).mean()

    return loss, params


def mask_on_the_query_axis():
    _, params, qkv = projected()
    keep = np.arange(8) < np.array([8, 5, 3])[:, None]

    def loss():
        out = ta.fused_attention(*qkv(), mask=keep[:, None, :, None])  # FAULT
        return (out * out).mean()

    return loss, params


def batch_mask_read_as_queries():
    _, params, qkv = projected(batch=8)
    keep = np.arange(8) < np.array([8, 5, 3, 7, 2, 8, 4, 6])[:, None]

    def loss():
        out = ta.fused_attention(*qkv(), mask=keep)  # FAULT
        return (out * out).mean()

    return loss, params


def inverted_padding_mask():
    _, params, qkv = projected()
    pad = ~ta.padding_mask(np.array([[8], [5], [3]]), 8)

    def loss():
        out = ta.fused_attention(*qkv(), mask=pad)  # FAULT
        return (out * out).mean()

    return loss, params


def mask_after_softmax():
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        weights = ta.softmax(q @ k.mT / math.sqrt(8))
        weights = ta.masked_fill(weights, ~ta.causal_mask(8), 0.0)  # FAULT
        out = weights @ v
        return (out * out).mean()

    return loss, params


def softmax_over_the_queries():
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        weights = ta.softmax(q @ k.mT / math.sqrt(8), axis=-2)  # FAULT
        out = weights @ v
        return (out * out).mean()

    return loss, params


def one_dead_head():
    _, params, qkv = projected()
    factor = np.array([1, 1, 1e4, 1], np.float32)[:, None, None]

    def loss():
        q, k, v = qkv()
        out, _ = ta.scaled_dot_product_attention(q * factor, k, v)  # FAULT
        return (out * out).mean()

    return loss, params


def a_head_that_nobody_hears():
    _, params, qkv = projected()
    ears = np.array([1, 0, 1, 1], np.float32)[:, None, None]

    def loss():
        out, _ = ta.scaled_dot_product_attention(*qkv())  # FAULT
        return (out * ears * out).mean()

    return loss, params


# ---------------------------------------------------------------------------- the same by other operations


def by_hand(attend):
    """A fault whose line stands in `attend(q, k, v)`."""
    _, params, qkv = projected()

    def loss():
        out = attend(*qkv())
        return (out * out).mean()

    return loss, params


def scaled_on_the_queries():
    def attend(q, k, v):
        q = q / math.sqrt(32)  # FAULT
        return ta.softmax(q @ k.mT) @ v

    return by_hand(attend)


def scaled_twice():
    def attend(q, k, v):
        q = q / math.sqrt(8)  # FAULT
        return ta.softmax(q @ k.mT / math.sqrt(8)) @ v

    return by_hand(attend)


def scale_multiplied_where_it_divides():
    def attend(q, k, v):
        scores = (q @ k.mT).reshape(3, 4, 64) * math.sqrt(8)  # FAULT
        return ta.softmax(scores.reshape(3, 4, 8, 8)) @ v

    return by_hand(attend)


def inverted_bias():
    def attend(q, k, v):
        bias = np.where(ta.causal_mask(8), -np.inf, 0.0)
        return ta.scaled_dot_product_attention(q, k, v, bias=bias)[0]  # FAULT

    return by_hand(attend)


def inverted_bias_in_fused_attention():
    def attend(q, k, v):
        bias = np.where(ta.causal_mask(8), -np.inf, 0.0).astype(np.float32)
        return ta.fused_attention(q, k, v, bias=bias)  # FAULT

    return by_hand(attend)


def inverted_large_number():
    def attend(q, k, v):
        scores = q @ k.mT / math.sqrt(8)
        scores = scores - 1e9 * ta.causal_mask(8).astype(np.float32)  # FAULT
        return ta.softmax(scores) @ v

    return by_hand(attend)


def looks_ahead_by_a_minimum():
    bound = np.where(ta.causal_mask(8).T, 1e9, -1e9).astype(np.float32)

    def attend(q, k, v):
        scores = ta.minimum(q @ k.mT / math.sqrt(8), bound)  # FAULT
        return ta.softmax(scores) @ v

    return by_hand(attend)


def masked_by_where_after_softmax():
    def attend(q, k, v):
        weights = ta.softmax(q @ k.mT / math.sqrt(8))
        return ta.where(ta.causal_mask(8), weights, 0.0) @ v  # FAULT

    return by_hand(attend)


def masked_by_tril_after_softmax():
    def attend(q, k, v):
        weights = ta.softmax(q @ k.mT / math.sqrt(8))
        return ta.tril(weights) @ v  # FAULT

    return by_hand(attend)


def masked_by_a_product_after_softmax():
    def attend(q, k, v):
        weights = 0.5 * ta.softmax(q @ k.mT / math.sqrt(8))
        weights = 2.0 * weights
        return weights * ta.causal_mask(8).astype(np.float32) @ v  # FAULT

    return by_hand(attend)


def softmax_over_the_heads():
    def attend(q, k, v):
        return ta.softmax(q @ k.mT / math.sqrt(8), axis=1) @ v  # FAULT

    return by_hand(attend)


def softmax_over_the_queries_with_einsum():
    def attend(q, k, v):
        weights = ta.softmax(ta.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(8), axis=2)  # FAULT
        return ta.einsum("bhqk,bhkd->bhqd", weights, v)

    return by_hand(attend)
