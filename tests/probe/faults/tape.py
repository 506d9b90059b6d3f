"""Faults of the tape: cut, unused, frozen, shared or edited parameters."""

import numpy as np

import tinygrad_attn as ta

from .drawn import draw, two_layers, weight


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
