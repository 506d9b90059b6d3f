"""Healthy models of many kinds: each function gives (what makes the loss, parameters).  The doctor has nothing to say."""

import numpy as np

import tinygrad_attn as ta

from .faults.attention import projected
from .faults.drawn import draw, weight

CAUSAL = ta.causal_mask(8)
HIDE = np.where(CAUSAL, 0.0, -np.inf).astype(np.float32)


def square(out):
    return (out * out).mean()


def attending(attend, **settings):
    """A model of projections: attend(q, k, v) -> out, all (batch, heads, n, d_k)."""
    _, params, qkv = projected(**settings)
    return lambda: square(attend(*qkv())), params


def weighing(weigh):
    """Another score: weigh(q, k) -> weights."""
    return attending(lambda q, k, v: weigh(q, k) @ v)


def unit(x):
    return x / ta.norm(x, -1, True)


def additive():
    P = {"W_Q": weight(8, 5, scale=0.4), "W_K": weight(8, 5, seed=1, scale=0.4), "w": weight(5, seed=2, scale=0.4)}
    q, k = draw(2, 6, 8), draw(2, 6, 8, seed=1)
    return lambda: square(ta.additive_attention(q, k, k, P["W_Q"], P["W_K"], P["w"])[0]), P


def additive_by_hand():
    """Its scores are a product with a matrix of one column."""
    w = weight(8, 1, seed=9)
    loss, params = weighing(lambda q, k: ta.softmax((ta.tanh(q[..., :, None, :] + k[..., None, :, :]) @ w)[..., 0]))
    return loss, params | {"w": w}


def additive_by_einsum():
    w = weight(8, seed=9, scale=0.1)
    hidden = "bhqkd,d->bhqk"
    loss, params = weighing(
        lambda q, k: ta.softmax(ta.einsum(hidden, ta.tanh(q[..., :, None, :] + k[..., None, :, :]), w))
    )
    return loss, params | {"w": w}


def cosine():
    return attending(lambda q, k, v: ta.fused_attention(unit(q), unit(k), v, scale=10.0))


def cosine_by_hand():
    return weighing(lambda q, k: ta.softmax(unit(q) @ unit(k).mT * 5.0))


def cosine_with_a_learned_temperature():
    t = ta.Tensor(np.full((4, 1, 1), 5.0), requires_grad=True, dtype="float32")
    loss, params = weighing(lambda q, k: ta.softmax(unit(q) @ unit(k).mT * t))
    return loss, params | {"t": t}


def linear_attention():
    return attending(lambda q, k, v: ta.softmax(q) @ (ta.softmax(k, axis=-2).mT @ v))


def linear_attention_by_einsum():
    def attend(q, k, v):
        context = ta.einsum("bhnd,bhne->bhde", ta.softmax(k, axis=-2), v)
        return ta.einsum("bhnd,bhde->bhne", ta.softmax(q), context)

    return attending(attend)


def scores_of_keys_by_queries():
    """Softmax over axis -2 is right where the scores stand on their side."""
    return attending(lambda q, k, v: ta.einsum("bhkq,bhkd->bhqd", ta.softmax(k @ q.mT / 8**0.5, axis=-2), v))


def slots():
    """Slots compete for the inputs (softmax over the queries), then each takes a mean of what it won."""

    def weigh(q, k):
        won = ta.softmax(q @ k.mT / 8**0.5, axis=-2)
        return won / won.sum(axis=-1, keepdims=True)

    return weighing(weigh)


def top_keys():
    """Only the larger weights, made to add up to 1 again."""

    def weigh(q, k):
        p = ta.softmax(q @ k.mT / 8**0.5)
        p = ta.where(p.numpy() >= np.median(p.numpy(), axis=-1, keepdims=True), p, 0.0)
        return p / p.sum(axis=-1, keepdims=True)

    return weighing(weigh)


def padded_queries_set_to_zero():
    """Whole rows of the weights are 0 after softmax: queries that are padding."""
    there = (np.arange(8) < np.array([8, 5, 3])[:, None])[:, None, :, None]
    return weighing(lambda q, k: ta.where(there, ta.softmax(q @ k.mT / 8**0.5), 0.0))


def weights_times_a_number():
    return weighing(lambda q, k: ta.softmax(q @ k.mT / 8**0.5) * 0.7)


def weights_with_dropout():
    return weighing(lambda q, k: ta.dropout(ta.softmax(q @ k.mT / 8**0.5), 0.3))


def a_bias_that_hides():
    return weighing(lambda q, k: ta.softmax(q @ k.mT / 8**0.5 + HIDE))


def a_padded_start_hidden_by_a_large_number():
    """The first queries see no key: with a number in place of -inf they see every one, and nobody asks them."""
    there = (np.arange(8) >= np.array([0, 2, 4])[:, None])[:, None, None, :]
    return weighing(lambda q, k: ta.softmax(ta.where(there & CAUSAL, q @ k.mT / 8**0.5, -1e9)))


def one_mask_for_scores_of_one_row():
    """The scores are smaller than the mask that they meet."""
    _, params, qkv = projected(heads=1, batch=1)
    there = np.arange(8) < np.array([8, 5, 3])[:, None, None]

    def loss():
        q, k, v = (one[0, 0] for one in qkv())
        return square(ta.softmax(ta.where(there, q @ k.mT / 32**0.5, -np.inf)) @ v)

    return loss, params


def a_mask_of_queries_before_softmax_and_after():
    def weigh(q, k):
        p = ta.softmax(ta.where(CAUSAL, q @ k.mT / 8**0.5, -np.inf))
        return ta.where(CAUSAL, p, 0.0)

    return weighing(weigh)


def half_precision():
    def weigh(q, k):
        return ta.softmax((q.astype("float16") @ k.mT.astype("float16") / 8**0.5).astype("float32"))

    return weighing(weigh)


def rectified_outputs():
    """What is 0 behind the product with the values is no weight, though it has the shape of the weights."""
    values = np.eye(8, dtype=np.float32)[None, None]
    return attending(lambda q, k, v: ta.relu(ta.softmax(q @ k.mT / 8**0.5) @ values - 0.125) + v)


def pooled_by_as_many_heads_as_there_are_words():
    x, W = draw(3, 8, 16), weight(16, 8, seed=1, scale=0.25)
    return lambda: square(ta.softmax(x @ W, axis=1).mT @ x), {"W": W}


def a_slope_of_distance():
    """So long that the weights of the farthest keys are 0."""
    distance = np.abs(np.subtract.outer(np.arange(240), np.arange(240))).astype(np.float32)
    loss, params = attending(lambda q, k, v: ta.softmax(q @ k.mT / 8**0.5 - 0.5 * distance) @ v, n=240, batch=1)
    return loss, params


def a_learned_bias_of_position():
    bias = weight(8, 8, seed=9)
    loss, params = weighing(lambda q, k: ta.softmax(q @ k.mT / 8**0.5 + bias))
    return loss, params | {"bias": bias}


def scores_of_content_and_position():
    """Two products are added before one division."""
    r = draw(8, 8, seed=9)
    return weighing(lambda q, k: ta.softmax((q @ k.mT + q @ r.mT) / 16**0.5))


def bounded_scores():
    return weighing(lambda q, k: ta.softmax(20.0 * ta.tanh(q @ k.mT / 8**0.5 / 20.0)))


def a_band():
    near = np.abs(np.subtract.outer(np.arange(8), np.arange(8))) <= 1
    return attending(lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, mask=near)[0])


def a_band_of_the_past():
    back = np.subtract.outer(np.arange(8), np.arange(8))
    return attending(lambda q, k, v: ta.fused_attention(q, k, v, mask=(back >= 0) & (back < 3)))


def a_prefix_that_all_may_see():
    keep = CAUSAL | (np.arange(8) < 3)
    return attending(lambda q, k, v: ta.fused_attention(q, k, v, mask=keep))


def documents_side_by_side():
    of = np.array([0, 0, 0, 1, 1, 1, 1, 2])
    return attending(lambda q, k, v: ta.fused_attention(q, k, v, mask=(of[:, None] == of) & CAUSAL))


def scattered_keys():
    keep = np.eye(8, dtype=bool) | (np.random.default_rng(3).random((8, 8)) < 0.3)
    return attending(lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, mask=keep)[0])


def one_key():
    k, v = draw(3, 4, 1, 8, seed=8), weight(3, 4, 1, 8, seed=9)
    _, params, qkv = projected()
    return lambda: square(ta.softmax(qkv()[0] @ k.mT / 8**0.5) @ v), {"W_Q": params["W_Q"], "v": v}


def one_key_fused():
    k, v = draw(3, 4, 1, 8, seed=8), weight(3, 4, 1, 8, seed=9)
    _, params, qkv = projected()
    return lambda: square(ta.fused_attention(qkv()[0], k, v)), {"W_Q": params["W_Q"], "v": v}


def many_queries_one_key_head():
    x, W_Q, W_K, W_V = draw(3, 8, 32), *(weight(32, n, seed=n, scale=32**-0.5) for n in (32, 8, 9))

    def loss():
        q = (x @ W_Q).reshape(3, 8, 4, 8).swapaxes(1, 2)
        return square(ta.fused_attention(q, (x @ W_K)[:, None], (x @ W_V)[:, None], causal=True))

    return loss, [W_Q, W_K, W_V]


def tied_queries_and_keys():
    _, params, qkv = projected()

    def loss():
        q, _, v = qkv()
        return square(ta.scaled_dot_product_attention(unit(q) * 8**0.5, unit(q) * 8**0.5, v)[0])

    return loss, {"W_QK": params["W_Q"], "W_V": params["W_V"]}


def tied_embedding():
    E, W = weight(10, 16, scale=16**-0.5), weight(16, 16, seed=1, scale=0.25)
    tokens = np.arange(12) % 10
    return lambda: ta.cross_entropy(ta.tanh(E[tokens] @ W) @ E.mT, tokens), {"E": E, "W": W}


def small_first_weights():
    """Scores near 0 are usual at the start; another scale would not be a better one."""
    _, params, qkv = projected()
    with ta.no_grad():
        params["W_Q"] *= 0.05
    return lambda: square(ta.scaled_dot_product_attention(*qkv())[0]), params


def small_weights_without_a_scale():
    _, params, qkv = projected()
    with ta.no_grad():
        params["W_Q"] *= 0.15
    return lambda: square(ta.softmax(qkv()[0] @ qkv()[1].mT) @ qkv()[2]), params


def a_low_rank_adapter():
    """W is frozen, B starts at 0: the first gradient of A is 0, that of B is not."""
    x, W, A, B = draw(6, 8), draw(8, 8, seed=1), weight(8, 2, seed=2), ta.zeros((2, 8), requires_grad=True)
    return lambda: square(x @ W + (x @ A) @ B), {"A": A, "B": B}


def a_branch_that_starts_at_zero():
    x, W, V = draw(6, 8), weight(8, 8, seed=1), ta.zeros((8, 8), requires_grad=True)
    return lambda: square(x + ta.relu(x @ W) @ V), {"W": W, "V": V}


def a_branch_times_a_gate_at_zero():
    x, W, gate = draw(6, 8), weight(8, 8, seed=1), ta.zeros((), requires_grad=True)
    return lambda: square(x + ta.tanh(gate) * ta.tanh(x @ W)), {"W": W, "gate": gate}


def a_gain_that_starts_at_zero():
    x, W, gain, bias = (
        draw(6, 8),
        weight(8, 8, seed=1),
        ta.zeros(8, requires_grad=True),
        ta.zeros(8, requires_grad=True),
    )

    def loss():
        y = x @ W
        return square(x + (y - y.mean(-1, True)) / (y.var(-1, True) + 1e-5) ** 0.5 * gain + bias)

    return loss, {"W": W, "gain": gain, "bias": bias}


def an_output_that_starts_at_zero():
    _, params, qkv = projected()
    x, W_O = draw(3, 4, 8, 8, seed=5), ta.zeros((8, 8), requires_grad=True)
    return lambda: square(x + ta.fused_attention(*qkv(), causal=True) @ W_O), params | {"W_O": W_O}


def logits_that_start_at_zero():
    x, W = draw(6, 4), ta.zeros((4, 3), requires_grad=True)
    b = ta.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    return lambda: ta.cross_entropy(x @ W + b, np.arange(6) % 3), {"W": W, "b": b}


def experts():
    """A gate of softmax mixes matrices; its scores are a product with a parameter."""
    x, G, E = draw(6, 8), weight(8, 3, seed=1, scale=0.1), weight(3, 8, 8, seed=2, scale=0.3)
    return lambda: square(ta.einsum("be,bd,edf->bf", ta.softmax(x @ G), x, E)), {"G": G, "E": E}


def a_learned_memory():
    """Keys and values are parameters."""
    x, K, V = draw(2, 6, 32), weight(32, 10, seed=1, scale=0.02), weight(10, 8, seed=2)
    return lambda: square(ta.softmax(x @ K) @ V), {"K": K, "V": V}


def a_learned_query():
    x, W, q = draw(4, 6, 16), weight(16, 16, seed=1, scale=0.25), weight(1, 16, seed=2, scale=0.1)
    return lambda: square(ta.softmax(q @ (x @ W).mT) @ x), {"W": W, "q": q}


def attention_of_a_convolution():
    """Local softmax weights straight from a projection: no product with keys."""
    x, W = draw(2, 8, 8), weight(8, 8, seed=1)
    return lambda: square(ta.softmax(x @ W) @ x), {"W": W}


def distilled():
    """Probabilities as targets, and the log of a softmax: no second softmax."""
    x, W = draw(6, 4), weight(4, 3, seed=1)
    p = ta.softmax(draw(6, 3, seed=2))
    return lambda: -(p * ta.log(ta.softmax(x @ W) + 1e-6)).sum(axis=-1).mean(), {"W": W}


def features_that_add_up_to_one():
    """A softmax inside the network, far from the loss."""
    x, W, V = draw(6, 4), weight(4, 5, seed=1), weight(5, 3, seed=2)
    return lambda: ta.cross_entropy(ta.softmax(x @ W) @ V, np.arange(6) % 3), {"W": W, "V": V}


def contrasted_pairs():
    """Each row's target is its own number; the logits are cosines over a temperature."""
    x, y, W = draw(6, 8), draw(6, 8, seed=1), weight(8, 8, seed=2)
    return lambda: ta.cross_entropy(unit(x @ W) @ unit(y).mT / 0.07, np.arange(6)), {"W": W}


def a_recurrent_cell():
    x, W, U = draw(5, 3, 4), weight(4, 6, seed=1), weight(6, 6, seed=2, scale=0.4)

    def loss():
        h = ta.zeros((3, 6))
        for step in range(5):
            h = ta.tanh(x[step] @ W + h @ U)
        return square(h)

    return loss, {"W": W, "U": U}


HEALTHY = [
    additive, additive_by_hand, additive_by_einsum, cosine, cosine_by_hand, cosine_with_a_learned_temperature,
    linear_attention, linear_attention_by_einsum, scores_of_keys_by_queries, slots, top_keys,
    padded_queries_set_to_zero, weights_times_a_number, weights_with_dropout, a_bias_that_hides, a_slope_of_distance,
    a_learned_bias_of_position, scores_of_content_and_position, bounded_scores, a_band, a_band_of_the_past,
    a_prefix_that_all_may_see, documents_side_by_side, scattered_keys, one_key, one_key_fused,
    many_queries_one_key_head, tied_queries_and_keys, tied_embedding, small_first_weights,
    small_weights_without_a_scale, a_low_rank_adapter, a_branch_that_starts_at_zero, a_branch_times_a_gate_at_zero,
    a_gain_that_starts_at_zero, an_output_that_starts_at_zero, logits_that_start_at_zero, experts, a_learned_memory,
    a_learned_query, attention_of_a_convolution, distilled, features_that_add_up_to_one, contrasted_pairs,
    a_recurrent_cell, rectified_outputs, pooled_by_as_many_heads_as_there_are_words,
    a_padded_start_hidden_by_a_large_number, one_mask_for_scores_of_one_row,
    a_mask_of_queries_before_softmax_and_after, half_precision,
]  # fmt: skip
