"""The vanishing experiment against the published numbers, and its formulas against high precision."""

import math

import numpy as np
import pytest

from tinygrad_attn.lab.vanishing import COLUMNS, table, vanishing

WIDTHS = (16, 64, 256, 1024)

# Unscaled, by d_k: std of S, entropy / log n, rows below 1e-3; then, as ranges, because published figures are
# rounded (0.11 is anything from 0.105 to 0.115) and the last ratio was published as 9 to 14:
# median Jacobian norm, median row norm of dL/dS, median ratio of |dL/dW_Q| unscaled / scaled
UNSCALED = {
    16: (4.0, 0.33, 0.014, (0.325, 0.335), (0.1845, 0.1855), (3.65, 3.75)),
    64: (8.0, 0.15, 0.16, (0.105, 0.115), (0.0535, 0.0545), (5.85, 5.95)),
    256: (16.0, 0.07, 0.43, (6.55e-3, 6.65e-3), (3.25e-3, 3.35e-3), (7.45, 7.55)),
    1024: (32.0, 0.035, 0.67, (1.75e-5, 1.85e-5), (8.5e-6, 9.5e-6), (9.0, 14.0)),
}
# Scaled, 0.304 and 0.26 are published for every d_k.  0.304 is where the Jacobian norm goes as d_k grows; at
# d_k = 16 the products have heavier tails, and 640,000 rows give 0.3012.
SCALED_JACOBIAN = dict.fromkeys(WIDTHS, (0.3035, 0.3045)) | {16: (0.3011, 0.3013)}
SCALED_GRADIENT = (0.255, 0.265)


def log_median_error(samples, resamples=200, seed=0):
    """The bootstrap standard error of log(median), which is the relative error of the median.

    samples (groups, ...): positive numbers.  Whole groups are drawn with replacement, because numbers inside a group
    (queries that share their keys) are not independent.
    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 6.
    """
    rng = np.random.default_rng(seed)
    count = len(samples)
    medians = [np.median(samples[rng.integers(0, count, count)]) for _ in range(resamples)]
    return float(np.std(np.log(medians)))


@pytest.fixture(scope="module")
def samples():
    return {(sample.d_k, sample.scaled): sample for sample in vanishing()}


def distance(published, numbers):
    """How many bootstrap standard errors the log-median is away from the published range; 0 inside."""
    median = np.median(numbers)
    low, high = (math.log(median / end) for end in published)
    return max(0.0, -low, high) / log_median_error(numbers)


@pytest.mark.parametrize("d_k", WIDTHS)
def test_unscaled_medians_agree_within_three_standard_errors(samples, d_k):
    sample, (*_, jacobian, score_gradient, ratio) = samples[d_k, False], UNSCALED[d_k]
    assert distance(jacobian, sample.jacobian) < 3
    assert distance(score_gradient, sample.score_gradient) < 3
    assert distance(ratio, sample.query_ratio) < 3


@pytest.mark.parametrize("d_k", WIDTHS)
def test_scaled_medians_agree_within_three_standard_errors(samples, d_k):
    sample = samples[d_k, True]
    assert distance(SCALED_JACOBIAN[d_k], sample.jacobian) < 3
    assert distance(SCALED_GRADIENT, sample.score_gradient) < 3


@pytest.mark.parametrize("d_k", WIDTHS)
def test_spread_entropy_and_dead_rows(samples, d_k):
    std, uncertain, dead, *_ = UNSCALED[d_k]
    broken, fine = samples[d_k, False].row(), samples[d_k, True].row()
    assert broken["score_std"] == pytest.approx(std, rel=0.01) and fine["score_std"] == pytest.approx(1.0, rel=0.01)
    assert broken["entropy_over_log_n"] == pytest.approx(uncertain, abs=0.005)
    assert fine["entropy_over_log_n"] == pytest.approx(0.85, abs=0.005)
    assert broken["dead_rows"] == pytest.approx(dead, abs=0.01) and fine["dead_rows"] == 0.0


def test_the_typical_score_gradient_falls_while_the_query_gradient_rises(samples):
    rows = [samples[d_k, False].row() for d_k in WIDTHS]
    falling = [row["score_gradient_row_norm"] for row in rows]
    rising = [row["W_Q_gradient_ratio"] for row in rows]
    assert falling == sorted(falling, reverse=True) and rising == sorted(rising)


def test_table_has_a_row_per_width_and_variant_and_full_precision_in_csv(samples):
    made = table(list(samples.values()))
    assert [(row["d_k"], row["scaled"]) for row in made.rows] == [
        (d_k, scaled) for d_k in WIDTHS for scaled in (True, False)
    ]
    header, first, *_ = made.to_csv().splitlines()
    assert header.split(",") == [column.key for column in COLUMNS]
    assert float(first.split(",")[2]) == samples[16, True].score_std
    assert "20,000 rows" in str(made)


def test_same_seed_same_numbers_and_steps_are_reported():
    done = []
    one = vanishing([8], rows=160, draws=3, seed=5, on_step=lambda now, total: done.append((now, total)))
    two, other = vanishing([8], rows=160, draws=3, seed=5), vanishing([8], rows=160, draws=3, seed=6)
    assert one[1].row() == two[1].row() != other[1].row()
    assert done == [(1, 2), (2, 2)]


def test_bootstrap_agrees_with_theory():
    normal = np.exp(np.random.default_rng(1).standard_normal((10_000, 1)))
    assert log_median_error(normal) == pytest.approx(np.sqrt(np.pi / 2) / np.sqrt(10_000), rel=0.1)


def test_bootstrap_draws_whole_groups():
    rng = np.random.default_rng(0)
    groups = np.exp(rng.standard_normal((500, 1)))
    copies = np.repeat(groups, 20, axis=1)  # 20 copies hold no more information than one
    assert log_median_error(copies) == pytest.approx(log_median_error(groups), rel=1e-9)
    assert log_median_error(copies.reshape(-1, 1)) < 0.5 * log_median_error(groups)
