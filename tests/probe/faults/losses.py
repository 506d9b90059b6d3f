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


def softmax_then_a_shape_before_cross_entropy():
    x, params, W, V = two_layers()

    def loss():
        p = ta.softmax(ta.tanh(x @ W) @ V).reshape(2, 3, 3)
        return ta.cross_entropy(p, np.arange(6).reshape(2, 3) % 3)  # FAULT

    return loss, params


def softmax_then_a_temperature_before_cross_entropy():
    x, params, W, V = two_layers()

    def loss():
        p = ta.softmax(ta.tanh(x @ W) @ V) / 0.5
        return ta.cross_entropy(p, [0, 1, 2, 0, 1, 2])  # FAULT

    return loss, params


def softmax_by_hand_before_cross_entropy():
    x, params, W, V = two_layers()

    def loss():
        e = ta.exp(ta.tanh(x @ W) @ V)
        return ta.cross_entropy(e / e.sum(axis=-1, keepdims=True), [0, 1, 2, 0, 1, 2])  # FAULT

    return loss, params


def a_softmax_that_is_summed():
    x, params, W, V = two_layers()

    def loss():
        p = ta.softmax(ta.tanh(x @ W) @ V)  # FAULT
        return (p * 3.0).sum()

    return loss, params
