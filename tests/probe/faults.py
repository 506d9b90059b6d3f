"""Planted faults: each function gives (what makes the loss, parameters, other arguments).  The faulty line is
marked FAULT; the kind that the doctor should name is in the table at the end."""

import math

import numpy as np

import tinygrad_attn as ta


def draw(*shape, seed=0, scale=1.0):
    return ta.Tensor(np.random.default_rng(seed).standard_normal(shape) * scale, dtype="float32")


def weight(*shape, seed=0, scale=1.0):
    return ta.Tensor(np.random.default_rng(seed).standard_normal(shape) * scale, requires_grad=True, dtype="float32")


def two_layers():
    x, W, V = draw(6, 4), weight(4, 5, seed=1), weight(5, 3, seed=2)
    return x, {"W": W, "V": V}, W, V


# ---------------------------------------------------------------------------- the tape


def cut_by_detach():
    x, params, W, V = two_layers()

    def loss():
        h = ta.tanh(x @ W)
        h = h.detach()  # FAULT
        return ((h @ V) * (h @ V)).mean()

    return loss, params


def cut_by_a_new_tensor():
    x, params, W, V = two_layers()

    def loss():
        h = ta.Tensor(ta.tanh(x @ W))  # FAULT
        return ((h @ V) * (h @ V)).mean()

    return loss, params


def cut_by_numpy():
    x, params, W, V = two_layers()

    def loss():
        h = (x @ W).numpy()  # FAULT
        h = ta.Tensor(np.tanh(h))
        return ((h @ V) * (h @ V)).mean()

    return loss, params


def cut_by_data():
    x, params, W, V = two_layers()

    def loss():
        h = ta.tanh(x @ W.data)  # FAULT
        return ((h @ V) * (h @ V)).mean()

    return loss, params


def cut_by_no_grad():
    x, params, W, V = two_layers()

    def loss():
        with ta.no_grad():
            h = x @ W  # FAULT
        return ((h @ V) * (h @ V)).mean()

    return loss, params


def cut_by_integers():
    x, params, W, V = two_layers()

    def loss():
        h = ((x @ W) * 100.0).astype("int64")  # FAULT
        return ((h.astype("float32") @ V) * 0.01).mean()

    return loss, params


def never_used():
    x, params, W, V = two_layers()
    params["U"] = ta.zeros((3, 3), requires_grad=True)  # FAULT
    return lambda: (ta.tanh(x @ W) @ V).mean(), params


def dead_branch():
    x, params, W, V = two_layers()

    def loss():
        ta.exp(x @ W)  # FAULT
        return ((x @ V[:4]) * (x @ V[:4])).mean()

    return loss, params


def everything_detached():
    x, params, W, V = two_layers()

    def loss():
        out = ta.tanh(x @ W) @ V
        return (out * out).mean().detach()  # FAULT

    return loss, params


def frozen_by_mistake():
    x, V = draw(6, 4), weight(4, 3)
    W = draw(4, 4, seed=1)

    def loss():
        return ((x @ W) @ V).mean()  # FAULT

    return loss, {"W": W, "V": V}


def a_reshaped_view_as_parameter():
    x, W = draw(6, 4), weight(12)
    view = W.reshape(4, 3)  # FAULT
    return lambda: ((x @ view) * (x @ view)).mean(), {"view": view}


def listed_twice():
    x, W = draw(6, 4), weight(4, 4)  # FAULT
    return lambda: ((x @ W @ W.T) * x).mean(), [W, W]


def tied_by_shared_memory():
    array = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    x, W, U = draw(6, 4), ta.from_dlpack(array), ta.from_dlpack(array)
    W.requires_grad = True
    U.requires_grad = True  # FAULT
    return lambda: ((x @ W @ U.T) * x).mean(), {"W": W, "U": U}


def tied_weights_in_two_optimisers():
    x, W = draw(6, 4), weight(4, 4)  # FAULT
    both = [ta.optim.SGD([W], lr=0.1), ta.optim.SGD([W], lr=0.1)]
    return lambda: ((x @ W @ W.T) * x).mean(), {"W": W}, both


def left_out_of_the_optimiser():
    x, params, W, V = two_layers()  # the leaf is made in weight()
    return lambda: (ta.tanh(x @ W) @ V).mean(), params, ta.optim.SGD([W], lr=0.1)


def stepped_before_backward():
    x, params, W, V = two_layers()

    def loss():
        out = ta.tanh(x @ W) @ V  # FAULT
        with ta.no_grad():
            V.data = V.data * 0.9
        return (out * out).mean()

    return loss, params


class Hidden(ta.Module):
    def __init__(self):
        self._W = ta.Tensor(np.eye(4), requires_grad=True, dtype="float32")  # FAULT
        self.V = ta.Tensor(np.eye(4), requires_grad=True, dtype="float32")

    def forward(self, x):
        return x @ self._W @ self.V


def private_parameter():
    model, x = Hidden(), draw(6, 4)
    return lambda: (model(x) * model(x)).mean(), model


# ---------------------------------------------------------------------------- numbers


def log_of_zero():
    W = ta.Tensor([1.0, 0.0, 2.0], requires_grad=True)
    return lambda: (ta.log(W) * W).sum(), {"W": W}  # FAULT


def overflow():
    x, params, W, V = two_layers()

    def loss():
        h = ta.exp((x @ W) * 100.0)  # FAULT
        return (h / h.sum(axis=-1, keepdims=True) @ V).mean()

    return loss, params


def division_by_zero():
    x, params, W, V = two_layers()
    count = ta.zeros((6, 1))

    def loss():
        h = (x @ W) / count  # FAULT
        return (h @ V).mean()

    return loss, params


def nan_in_the_data():
    data = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    data[2, 1] = np.nan
    x, W = ta.Tensor(data), weight(4, 3)

    def loss():
        return (x @ W).mean()  # FAULT

    return loss, {"W": W}


def nan_only_in_backward():
    @ta.op(vjps={"x": lambda g, x: g / x})
    def positive_part(x):
        return np.maximum(x, 0)

    x = ta.Tensor([1.0, 0.0, -1.0], requires_grad=True)

    def loss():
        return (positive_part(x) * 0.0 + x * x).sum()  # FAULT

    return loss, {"x": x}


def overflow_only_in_backward():
    @ta.op(vjps={"x": lambda g: g * np.float32(3e38) * 10})
    def steep(x):
        return x * 0.0

    W = weight(3)

    def loss():
        return steep(W * 2.0).sum()  # FAULT

    return loss, {"W": W}


def root_at_zero():
    W = ta.Tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    return lambda: ta.sqrt((W * W).sum(axis=-1)).sum(), {"W": W}  # FAULT


def norm_of_zero():
    W = ta.Tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    return lambda: ta.norm(W, axis=-1).sum(), {"W": W}  # FAULT


def dead_relu():
    x, W, V = draw(6, 4), weight(4, 5), weight(5, 3)
    b = ta.Tensor(np.full(5, -100.0), requires_grad=True, dtype="float32")

    def loss():
        h = ta.relu(x @ W + b)  # FAULT
        return ((h @ V - 1.0) * (h @ V - 1.0)).mean()

    return loss, {"W": W, "b": b}


def clipped_away():
    x, params, W, V = two_layers()

    def loss():
        h = ta.clip(x @ W + 50.0, -1.0, 1.0)  # FAULT
        return ((h @ V) * (h @ V)).mean()

    return loss, params


def a_float64_constant():
    x, params, W, V = two_layers()
    shift = ta.Tensor(np.ones(5))

    def loss():
        h = ta.tanh(x @ W + shift)  # FAULT
        return (h @ V).mean()

    return loss, params


def a_float64_parameter():
    x, W = draw(6, 4), weight(4, 5)
    V = ta.Tensor(np.ones((5, 3)), requires_grad=True)  # FAULT
    return lambda: (ta.tanh(x @ W) @ V).mean(), {"W": W, "V": V, "b": ta.zeros(1, requires_grad=True)}


# ---------------------------------------------------------------------------- attention


def projected(d_model=32, heads=4, n=8, batch=3, seed=0):
    """x, the parameters and a function x -> q, k, v (batch, heads, n, d_k) of unit variance."""
    x = draw(batch, n, d_model, seed=seed)
    params = {name: weight(d_model, d_model, seed=i, scale=d_model**-0.5) for i, name in enumerate(("W_Q", "W_K", "W_V"))}

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


# ---------------------------------------------------------------------------- the loss


def softmax_before_cross_entropy():
    x, params, W, V = two_layers()

    def loss():
        p = ta.softmax(ta.tanh(x @ W) @ V)
        return ta.cross_entropy(p, [0, 1, 2, 0, 1, 2])  # FAULT

    return loss, params


def no_target_counts():
    x, params, W, V = two_layers()

    def loss():
        return ta.cross_entropy(ta.tanh(x @ W) @ V, np.full(6, -100))  # FAULT

    return loss, params


FAULTS = [
    (cut_by_detach, "no gradient", "W"),
    (cut_by_a_new_tensor, "no gradient", "Tensor(...)"),
    (cut_by_numpy, "no gradient", "numpy()"),
    (cut_by_data, "no gradient", ".data"),
    (cut_by_no_grad, "no gradient", "matmul"),
    (cut_by_integers, "no gradient", "integers"),
    (never_used, "no gradient", "U: the forward pass never uses it"),
    (dead_branch, "no gradient", "not used by the loss"),
    (everything_detached, "no graph", "detach()"),
    (frozen_by_mistake, "no requires_grad", "W"),
    (a_reshaped_view_as_parameter, "not a leaf", "reshape"),
    (listed_twice, "tied twice", "same tensor"),
    (tied_by_shared_memory, "tied twice", "share their memory"),
    (tied_weights_in_two_optimisers, "stepped twice", "W"),
    (left_out_of_the_optimiser, "never stepped", "V"),
    (stepped_before_backward, "edited data", "V"),
    (private_parameter, "not among the parameters", "(4, 4)"),
    (log_of_zero, "NaN or inf in forward", "index (1,)"),
    (overflow, "NaN or inf in forward", "exp"),
    (division_by_zero, "NaN or inf in forward", "div"),
    (nan_in_the_data, "NaN or inf in the data", "(2, 1)"),
    (nan_only_in_backward, "NaN or inf in backward", "positive_part"),
    (overflow_only_in_backward, "NaN or inf in backward", "steep"),
    (root_at_zero, "singular point", "index (1,)"),
    (norm_of_zero, "singular point", "norm"),
    (dead_relu, "gradient exactly 0", "relu"),
    (clipped_away, "gradient exactly 0", "clip"),
    (a_float64_constant, "float64", "add"),
    (a_float64_parameter, "float64", "V"),
    (scaled_by_d_model, "scale", "1/sqrt(d_model), d_model = 8 x 4"),
    (not_scaled, "scale", "not at all"),
    (scaled_without_the_root, "scale", "the root is missing"),
    (scaled_by_d_model_in_fused_attention, "scale", "d_model"),
    (scaled_by_d_model_with_einsum, "scale", "d_model = 8 x 4"),
    (scaled_by_d_model_in_every_layer, "scale", "blocks.0.attn, blocks.1.attn"),
    (inverted_causal_mask, "mask: blind to itself", "inverted"),
    (causal_mask_upside_down, "mask: looks ahead", "upside down"),
    (masked_fill_with_keep, "mask: blind to itself", "inverted"),
    (mask_on_the_query_axis, "mask: wrong axis", "hides queries"),
    (batch_mask_read_as_queries, "mask: wrong axis", "lengths"),
    (inverted_padding_mask, "mask: empty rows", "no key"),
    (mask_after_softmax, "mask after softmax", "weights"),
    (softmax_over_the_queries, "softmax over the wrong axis", "axis -2"),
    (one_dead_head, "dead head", "head 2"),
    (a_head_that_nobody_hears, "dead head", "head 1"),
    (softmax_before_cross_entropy, "softmax before cross_entropy", "probabilities"),
    (no_target_counts, "no target counts", "-100"),
]
