"""How far would a median move if the experiment ran again?  Ask the sample itself."""

from __future__ import annotations

import numpy as np


def log_median_error(samples: np.ndarray, resamples: int = 200, seed: int = 0) -> float:
    """The bootstrap standard error of log(median), which is the relative error of the median.

    samples (groups, ...): positive numbers.  Whole groups are drawn with replacement, because numbers
    inside a group (queries that share their keys) are not independent.
    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 6.

    >>> rng = np.random.default_rng(1)
    >>> normal = np.exp(rng.standard_normal((10_000, 1)))  # theory: sqrt(pi / 2) / sqrt(10,000) = 0.0125
    >>> round(log_median_error(normal), 3)
    0.012
    """
    rng = np.random.default_rng(seed)
    count = len(samples)
    medians = [np.median(samples[rng.integers(0, count, count)]) for _ in range(resamples)]
    return float(np.std(np.log(medians)))
