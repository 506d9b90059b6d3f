"""Exact small numbers: each zero gets its cause."""

import mpmath
import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe
from tinygrad_attn.probe.zeros import (
    NONZERO,
    ROUNDING,
    STRUCTURAL,
    UNDERFLOW,
    kinds_of_zero,
    log_softmax_gradient,
    row_norms,
    spread,
)


def exact_log_gradient(s, g):
    mpmath.mp.dps = 60
    finite = [i for i, value in enumerate(s) if value > -np.inf]
    e = {i: mpmath.exp(mpmath.mpf(float(s[i]))) for i in finite}
    total = sum(e.values())
    inner = sum(e[i] / total * mpmath.mpf(float(g[i])) for i in finite)
    out = []
    for i in range(len(s)):
        value = abs(e[i] / total * (mpmath.mpf(float(g[i])) - inner)) if i in e else 0
        out.append(float(mpmath.log(value)) if value else -np.inf)
    return out


@pytest.mark.parametrize("spread_of_scores", [1.0, 30.0, 300.0, 3000.0])
def test_the_log_gradient_against_60_digits(spread_of_scores):
    rng = np.random.default_rng(0)
    s = rng.standard_normal(8) * spread_of_scores
    s[3] = -np.inf
    g = rng.standard_normal(8)
    np.testing.assert_allclose(log_softmax_gradient(s, g), exact_log_gradient(s, g), rtol=1e-9)


def test_a_row_without_keys_is_structural():
    assert (log_softmax_gradient(np.full(3, -np.inf), np.ones(3)) == -np.inf).all()
    assert (log_softmax_gradient(np.zeros(3), np.ones(3)) == -np.inf).all()  # equal g: nothing to choose


def test_kinds_in_attention():
    q = ta.Tensor([[0.0], [1.0], [50.0], [90.0]], requires_grad=True)
    k = ta.Tensor([[0.0], [1.0], [2.0], [3.0]])
    v = ta.Tensor([[1.0], [0.0], [5.0], [2.0]])
    with probe.watch("scores") as seen:
        ta.scaled_dot_product_attention(q, k, v, causal=True)[0].sum().backward()
    kinds = seen["scores"].kinds
    assert (kinds[np.triu_indices(4, 1)] == STRUCTURAL).all()
    assert kinds[0, 0] == STRUCTURAL  # one visible key: nothing to choose
    assert (kinds[1, :2] == NONZERO).all()
    assert kinds[3, 0] == UNDERFLOW  # e^-270 is below float32
    row = next(row for row in seen.table().rows if row["name"] == "scores")
    assert row["rows"] == 3 and row["untold"] == 0 and row["structural"] == 7 and row["underflow"] >= 1


def test_a_lost_difference_is_rounding():
    assert kinds_of_zero(np.zeros(1, np.float32), np.log([1e-20]))[0] == ROUNDING
    assert kinds_of_zero(np.zeros(1, np.float32), np.log([1e-50]))[0] == UNDERFLOW


def test_zeros_of_any_graph():
    x = ta.Tensor([[3.0, 0.0, -200.0], [1.0, 2.0, 3.0]], requires_grad=True)
    keep = np.array([[True, True, True], [True, True, False]])
    w = ta.softmax(ta.masked_fill(x, ~keep, -np.inf))
    kinds = probe.zeros((w * [1.0, 2.0, 3.0]).sum(), x)
    assert kinds.tolist() == [[NONZERO, NONZERO, UNDERFLOW], [NONZERO, NONZERO, STRUCTURAL]]


def test_zeros_finds_rounding():
    y = ta.Tensor([1.0], requires_grad=True)
    loss = (y * 1e30 + y - y * 1e30).sum()  # exact: 1
    kinds = probe.zeros(loss, y)
    loss.backward()  # the graph is still there
    assert y.grad.item() == 0.0 and kinds[0] == ROUNDING


def test_zeros_refuses_what_it_cannot_answer():
    x = ta.ones(2, requires_grad=True)
    loss = (x * x).sum()
    with pytest.raises(RuntimeError, match="does not depend"):
        probe.zeros(loss, ta.ones(2, requires_grad=True))
    loss.backward()
    with pytest.raises(RuntimeError, match="too late"):
        probe.zeros(loss, x)
    with pytest.raises(RuntimeError, match="no graph"):
        probe.zeros(ta.ones(1), x)


def test_spread_by_hand():
    g = np.array([[3.0, 4.0], [0.0, 0.0], [6e-4, 8e-4], [np.nan, 0.0]])
    found = spread(g, kinds_of_zero(g, None), dead=1e-3)
    assert found.rows == 4 and found.nonfinite == 1 and found.untold == 3
    assert found.dead == 0.75  # 0, 1e-3 (below 5e-3) and the row of NaN, whose finite part is 0
    assert found.high == pytest.approx(np.quantile([5, 0, 1e-3, 0], 0.95))
    assert row_norms(np.array([[0.0, 0.0]]))[0] == 0


def test_zeros_through_fused_attention_are_those_of_the_explicit_one():
    rng = np.random.default_rng(0)
    q, k, v = (ta.Tensor(rng.standard_normal((1, 6, 4)) * 20, requires_grad=True, dtype="float32") for _ in range(3))
    keep = np.tri(6, dtype=bool)
    keep[2] = False  # a query that sees nothing: its gradient is structurally 0
    found = []
    for attention in (ta.fused_attention, lambda *a, **s: ta.scaled_dot_product_attention(*a, **s)[0]):
        loss = (attention(q, k, v, mask=keep, scale=1.0) * 1e-3).sum()
        found.append(probe.zeros(loss, q))
    np.testing.assert_array_equal(found[0] == STRUCTURAL, found[1] == STRUCTURAL)
    assert (found[0][0, [0, 2]] == STRUCTURAL).all() and (found[0] != STRUCTURAL).any()
