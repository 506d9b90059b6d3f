"""What the planted faults draw on."""

import numpy as np

import tinygrad_attn as ta


def draw(*shape, seed=0, scale=1.0):
    return ta.Tensor(np.random.default_rng(seed).standard_normal(shape) * scale, dtype="float32")


def weight(*shape, seed=0, scale=1.0):
    return ta.Tensor(np.random.default_rng(seed).standard_normal(shape) * scale, requires_grad=True, dtype="float32")


def two_layers():
    x, W, V = draw(6, 4), weight(4, 5, seed=1), weight(5, 3, seed=2)
    return x, {"W": W, "V": V}, W, V
