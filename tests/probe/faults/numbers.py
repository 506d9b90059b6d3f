"""Faults of numbers: NaN, inf, singular points, gradients that are exactly 0, float64 among float32."""

import numpy as np

import tinygrad_attn as ta

from .drawn import draw, two_layers, weight


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


def two_factors_that_start_at_zero():
    """Each waits for the other."""
    x, A, B = draw(6, 8), ta.zeros((8, 2), requires_grad=True), ta.zeros((2, 8), requires_grad=True)

    def loss():
        y = draw(6, 8, seed=1) + (x @ A) @ B  # FAULT
        return (y * y).mean()

    return loss, {"A": A, "B": B}


def a_constant_zero_as_factor():
    x, W = draw(6, 8), weight(8, 8)

    def loss():
        y = x + (x @ W) * np.zeros(8, np.float32)  # FAULT
        return (y * y).mean()

    return loss, {"W": W}
