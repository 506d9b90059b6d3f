"""The twin run reproduces the measured table of vanishing gradients, within sampling error."""

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe
from tinygrad_attn.autodiff import random as draws

D_V, KEYS, CALLS, ROWS = 16, 16, 100, 20  # 2,000 rows; keys drawn anew for every 20


def attention(scale):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, scale=scale)[0]


def batch(d_k, seed=0):
    rng = np.random.default_rng(seed)
    draw = [rng.standard_normal((CALLS, 1, n, d)) for n, d in ((ROWS, d_k), (KEYS, d_k), (KEYS, D_V))]
    return [ta.Tensor(a, requires_grad=True, dtype="float32") for a in draw]


# d_k: score std, entropy / log n, median Jacobian norm, median row norm of dL/dS, share of rows below 1e-3
UNSCALED = {
    16: (4.0, 0.33, 0.33, 0.185, 0.014),
    64: (8.0, 0.15, 0.11, 0.054, 0.16),
    256: (16.0, 0.07, 6.6e-3, 3.3e-3, 0.43),
    1024: (32.0, 0.035, 1.8e-5, 9e-6, 0.67),
}


@pytest.mark.parametrize("d_k", UNSCALED)
def test_the_measured_table(d_k):
    scaled, unscaled = probe.compare(attention, batch(d_k)).variants
    std, entropy, jacobian, median, below = UNSCALED[d_k]
    found = unscaled.saturation("")
    assert found["score std"] == pytest.approx(std, rel=0.05)
    assert found["entropy"] == pytest.approx(entropy, rel=0.15)
    tolerance = 0.25 if d_k < 256 else 1.0  # a median of numbers that span decades
    assert np.log(found["jacobian"]) == pytest.approx(np.log(jacobian), abs=tolerance)
    norms = unscaled.norms("", "scaled")
    assert np.log(np.median(norms)) == pytest.approx(np.log(median), abs=tolerance)
    assert (norms < 1e-3).mean() == pytest.approx(below, abs=0.05)
    found = scaled.saturation("")
    assert found["score std"] == pytest.approx(1.0, rel=0.05)
    assert found["entropy"] == pytest.approx(0.85, abs=0.02)
    assert found["jacobian"] == pytest.approx(0.304, abs=0.02)
    norms = scaled.norms("", "scaled")
    assert np.median(norms) == pytest.approx(0.26, abs=0.02) and (norms < 1e-3).mean() == 0


def test_parameter_norms_rise_while_score_gradients_vanish():
    """The trap: dL/dW_Q is larger without the factor, although most rows are dead."""

    def make(scale):
        return ta.nn.MultiHeadAttention(64, 1, seed=0, scale=scale, d_k=256, sigma=1 / 8)

    twin = probe.compare(make, ta.randn(30, 16, 64))
    rows = {row["what"]: row for row in twin.table().rows}
    assert rows["dL/dscaled"]["ratio1"] < 0.2 and rows["dL/dW_Q"]["ratio1"] > 2
    assert rows["x factor"]["median0"] == pytest.approx(1 / 16) and rows["x factor"]["median1"] == 1.0
    ratio = rows["dL/dscores"]["ratio1"] / rows["dL/dscaled"]["ratio1"]
    assert ratio == pytest.approx(16, rel=1e-3)  # the plain factor, apart


def test_same_seed_same_data_and_nothing_left_behind():
    def make(scale):
        return ta.nn.Block(16, 4, causal=True, scale=scale, dropout=0.1)

    x = ta.randn(2, 5, 16, requires_grad=True)
    state = draws.generator()
    twin = probe.compare(make, x, scale=(None, 0.5, 1.0))
    assert draws.generator() is state and x.grad is None
    weights = [v.model.attn.W_Q.numpy().tobytes() for v in twin.variants]
    assert len(set(weights)) == 1 and len(twin.variants) == 3
    same = probe.compare(make, x, scale=(0.5,))
    np.testing.assert_array_equal(same.variants[0].gradient("attn", "q"), twin.variants[1].gradient("attn", "q"))
    assert "1/sqrt(d_k)" in str(twin) and "<table>" in twin._repr_html_()


def test_a_loss_of_ones_own_and_packed_weights():
    def make(scale):
        return ta.nn.MultiHeadAttention(8, 2, seed=0, scale=scale, packed=True)

    twin = probe.compare(make, {"x": ta.randn(2, 3, 8)}, loss=lambda out, x: (out * out).sum())
    assert twin.variants[0].gradient("", "W_Q").shape == (8, 8)
    assert any(row["what"] == "dL/dW_Q" for row in twin.table().rows)


def test_a_model_without_attention():
    with pytest.raises(RuntimeError, match="no attention ran"):
        probe.compare(lambda scale: lambda x: (x * 2.0).named("y").sum(), ta.ones(2, requires_grad=True))
