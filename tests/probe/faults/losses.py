"""Faults of the loss."""

import numpy as np

import tinygrad_attn as ta

from .drawn import two_layers


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
