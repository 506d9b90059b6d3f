"""Three bugs that raise no error, and what the doctor says.

A model with them runs, its loss falls a little, and nobody notices for a day.
"""

import math

import numpy as np

import tinygrad_attn as ta

D_MODEL, HEADS, N = 32, 4, 8
rng = np.random.default_rng(0)
x = ta.Tensor(rng.standard_normal((3, N, D_MODEL)), dtype="float32")
W = {
    name: ta.Tensor(rng.standard_normal((D_MODEL, D_MODEL)) / D_MODEL**0.5, requires_grad=True, dtype="float32")
    for name in ("W_Q", "W_K", "W_V")
}


def heads(W):
    return (x @ W).reshape(3, N, HEADS, D_MODEL // HEADS).swapaxes(1, 2)


def buggy():
    q, k, v = heads(W["W_Q"]), heads(W["W_K"]), heads(W["W_V"].detach())  # 1: "no need to train V"
    scores = q @ k.mT / math.sqrt(D_MODEL)  #                               2: the width of all heads, not of one
    scores = ta.masked_fill(scores, ta.causal_mask(N), -math.inf)  #        3: fills what should be kept
    out = ta.softmax(scores) @ v
    return (out * out).mean()


def healthy():
    q, k, v = heads(W["W_Q"]), heads(W["W_K"]), heads(W["W_V"])
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = ta.masked_fill(scores, ~ta.causal_mask(N), -math.inf)
    out = ta.softmax(scores) @ v
    return (out * out).mean()


report = ta.probe.doctor(buggy, W)
print(report)
assert {"no gradient", "scale", "mask: blind to itself"} <= set(report.kinds)

print("\nRepaired:", ta.probe.doctor(healthy, W))
assert not ta.probe.doctor(healthy, W)
