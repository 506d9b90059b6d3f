"""Causality through gradients: what a query may not see gets a gradient of exactly 0 from it, in every variant."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta

rng = np.random.default_rng(0)
W_q, W_k, w = rng.standard_normal((8, 6)), rng.standard_normal((8, 6)), rng.standard_normal(6)
VARIANTS = {
    "explicit": ta.scaled_dot_product_attention,
    "explicit, unscaled": partial(ta.scaled_dot_product_attention, scale=1.0),
    "fused": lambda *a, **s: (ta.fused_attention(*a, **s), None),
    "fused, unscaled": lambda *a, **s: (ta.fused_attention(*a, **s, scale=1.0), None),
    "additive": partial(ta.additive_attention, W_q=W_q, W_k=W_k, w=w),
}
i, j = np.arange(12)[:, None], np.arange(12)
MASKS = {  # name: (n_q, settings, who may see whom)
    "causal": (12, {"causal": True}, i >= j),
    "bottom-right": (5, {"causal": "bottom-right"}, np.tri(5, 12, 7, dtype=bool)),
    "top-left": (5, {"causal": "top-left"}, np.tri(5, 12, dtype=bool)),
    "window": (12, {"mask": (i >= j) & (i - j < 3)}, (i >= j) & (i - j < 3)),
    "packed": (12, {"mask": i // 5 == j // 5, "causal": True}, (i // 5 == j // 5) & (i >= j)),
    "padding": (12, {"mask": ta.padding_mask(7, 12), "causal": True}, (j < 7) & (i >= j)),
    "some rows empty": (12, {"mask": (i > j) & (i % 3 > 0)}, (i > j) & (i % 3 > 0)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("masked", MASKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_reach_exactly_the_visible_pairs(variant, masked, dtype):
    n_q, settings, visible = MASKS[masked]
    draws = np.random.default_rng(1)
    q, k, v = (ta.Tensor(draws.standard_normal((n, 8)), True, dtype=dtype) for n in (n_q, 12, 12))
    out, _ = VARIANTS[variant](q, k, v, **settings)
    for query in range(n_q):
        gradient = np.zeros(out.shape, dtype)
        gradient[query] = draws.standard_normal(8)
        dq, dk, dv = ta.grad(out, [q, k, v], gradient, retain_graph=True)
        assert_array_equal(dk.numpy()[~visible[query]], 0)
        assert_array_equal((dv.numpy() != 0).any(-1), visible[query])
        assert_array_equal(dq.numpy()[np.arange(n_q) != query], 0)


@pytest.mark.parametrize("function", ["explicit", "fused"])
def test_long_sequences(function):
    """300 tokens: the fused one works in blocks and skips those above the diagonal."""
    x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 300, 16)), True, dtype=np.float32)
    out, _ = VARIANTS[function](x, x, x, causal=True)
    for t in (0, 63, 64, 150, 298):
        gradient = np.zeros(out.shape, np.float32)
        gradient[:, t] = 1.0
        dx = ta.grad(out, x, gradient, retain_graph=True).numpy()
        assert_array_equal(dx[:, t + 1 :], 0)
        assert (np.abs(dx[:, : t + 1]).max(-1) > 0).all()
