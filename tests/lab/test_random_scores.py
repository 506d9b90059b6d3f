"""Variance, temperature, dictionary, Jacobian, vanishing: against theory, with tolerances from the sampling error."""

import numpy as np
import pytest

from tinygrad_attn.lab.dictionary import DICTIONARY, soft_dictionary, soft_lookup
from tinygrad_attn.lab.jacobian import backward_jacobian, jacobian_and_saturation, softmax_jacobian
from tinygrad_attn.lab.temperature import temperature_and_entropy
from tinygrad_attn.lab.vanishing import vanishing_gradients
from tinygrad_attn.lab.variance import score_variance


def test_variance_is_d_k_within_four_standard_errors():
    table = score_variance(seeds=2, pairs=2_000)
    assert all(verdict.holds for verdict in table.verdicts)
    for row in table.rows:
        n = 4_000
        assert abs(row["mean"]) < 4 * np.sqrt(row["d_k"] / n)
        assert abs(row["variance"] / row["d_k"] - 1) < 4 * np.sqrt((2 + 6 / row["d_k"]) / n)
        assert abs(row["std_scaled"] - 1) < 2 * np.sqrt((2 + 6 / row["d_k"]) / n)  # d(std) = d(variance) / 2


def test_share_beyond_8_at_d_k_64_is_that_of_a_normal():
    (share,) = score_variance(seeds=2, pairs=2_000).column("beyond_8", d_k=64)
    assert abs(share - 0.3173) < 4 * np.sqrt(0.3173 * 0.6827 / 4_000) + 0.01  # 0.01: q.k is not quite normal


def test_variance_would_be_refuted_by_other_entries(monkeypatch):
    from tinygrad_attn.lab import variance

    honest = variance._scores
    monkeypatch.setattr(variance, "_scores", lambda *a: 1.1 * honest(*a))
    assert not score_variance(seeds=2, pairs=2_000).verdicts[1].holds


def test_entropy_rises_from_0_to_log_n():
    table = temperature_and_entropy(seeds=1)
    assert [verdict.holds for verdict in table.verdicts] == [True] * 4
    # near T = infinity 1 - H/log n is Var(s) / (2 T^2 log n); the mean of 200 sample variances of 16 scores
    expected = 15 / 16 / (2 * 100**2 * np.log(16))
    assert 1 - table.rows[-1]["entropy"] == pytest.approx(expected, rel=4 * np.sqrt(2 / 15 / 200) + 0.02)


def test_soft_lookup_keeps_its_bound_and_reaches_the_value():
    table = soft_dictionary(seeds=3)
    assert all(verdict.holds for verdict in table.verdicts) and all(row["within"] for row in table.rows)
    keys = dict(zip(DICTIONARY, np.eye(4)))
    for name, value in DICTIONARY.items():
        assert soft_lookup(DICTIONARY, name, 0.01, keys)[0] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("scores", [[0.0, 0.0], [20.0, 0.0, -3.0], [800.0, 1.0, 2.0, 3.0]])
def test_explicit_jacobian_equals_backward(scores):
    scores = np.array(scores)
    J, ours = softmax_jacobian(scores), backward_jacobian(scores)
    assert np.abs(J - ours).max() <= 1e-14 * np.abs(J).max()
    assert np.abs(J.sum(axis=-1)).max() <= 1e-14 * np.abs(J).max()  # rows sum to 0: weights always sum to 1
    assert (J == J.T).all()


def test_saturation_of_the_jacobian():
    table = jacobian_and_saturation(seeds=1, samples=400)
    assert [verdict.holds for verdict in table.verdicts] == [True] * 3
    for d_k, low, high in ((16, 0.25, 0.4), (64, 0.05, 0.2), (256, 1e-3, 3e-2), (1024, 5e-7, 3e-4)):
        (norm,) = table.column("jacobian", d_k=d_k, scaled=False)
        assert low < norm < high  # 400 rows: log10 of the median moves by about 0.1 at d_k 256, 0.25 at 1024
    assert table.column("textbook_zeros", d_k=1024, scaled=False)[0] > 0.25
    assert (table.column("textbook_zeros", scaled=True) == 0).all()


def test_score_gradients_vanish_and_those_of_W_Q_do_not():
    table = vanishing_gradients(seeds=2, rows=1_600, draws=20)
    assert [verdict.holds for verdict in table.verdicts] == [True, True, False]
    assert (table.column("dead", scaled=True) == 0).all()
    assert table.column("dead", d_k=1024, scaled=False)[0] > 0.5
    assert (table.column("W_Q_ratio", scaled=False) > 2).all()
