"""Why 1/sqrt(d_k)?  How far a score of random vectors lies from 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .experiment import Run, experiment
from .result import Column, Picture, matching, number, percent, two_digits


@experiment(
    "How large are scores of random vectors?",
    title="Scores of random vectors: the variance is d_k",
    columns=[
        Column("d_k", "d_k"),
        Column("mean", "mean of\nq.k", "{:.3f}".format),
        Column("variance", "variance", number),
        Column("variance_error", "standard\nerror", two_digits),
        Column("std", "std", "{:.2f}".format),
        Column("std_scaled", "std of\nq.k/sqrt(d_k)", "{:.3f}".format),
        Column("beyond_8", "beyond\n+-8", percent),
    ],
    picture=Picture("d_k", "variance", spread="variance_error", log_x=True, log_y=True),
)
def score_variance(run: Run, *, widths: Sequence[int] = (16, 64, 256, 1024), pairs: int = 4_000) -> None:
    """The mean and variance of q . k for independent entries of mean 0 and variance 1, at each d_k.

    Claim: mean 0, variance d_k; divided by sqrt(d_k), variance 1.  Each product q_i k_i has mean 0 and variance 1,
    and variances of independent terms add up.  Refuted by a mean or a variance more than 4 standard errors away:
    sqrt(d_k/N) for the mean, d_k sqrt((2 + 6/d_k)/N) for the variance (6/d_k: products of normals have heavy tails).

    >>> [row["d_k"] for row in score_variance(seeds=1, widths=[4], pairs=100).rows]
    [4]
    """
    count = run.seeds * pairs
    for d_k in run.each(widths):
        scores = np.concatenate(run.over_seeds(lambda seed: _scores(seed, d_k, pairs)))
        run.row(
            d_k=d_k,
            mean=float(scores.mean()),
            mean_error=(d_k / count) ** 0.5,
            variance=float(scores.var()),
            variance_error=d_k * ((2 + 6 / d_k) / count) ** 0.5,
            std=float(scores.std()),
            std_scaled=float((scores / d_k**0.5).std()),
            beyond_8=float((np.abs(scores) > 8).mean()),
        )
    run.note("{:,} pairs with entries N(0,1).", count)
    away = max(abs(row["mean"]) / row["mean_error"] for row in run.rows)
    run.verdict("q . k has mean 0.", away < 4, "at most {:.1f} standard errors away", away)
    away = max(abs(row["variance"] - row["d_k"]) / row["variance_error"] for row in run.rows)
    sentence = "q . k has variance d_k, and 1 after the scaling."
    run.verdict(sentence, away < 4, "at most {:.1f} standard errors away", away)
    for row in matching(run.rows, {"d_k": 64}):
        near = abs(row["variance"] - 64) < 4 * row["variance_error"]
        measured = row["std"], percent(row["beyond_8"])
        run.verdict("At d_k = 64 a typical score is +-8.", near, "std {:.2f}; {} lie beyond +-8", *measured)


def _scores(seed: int, d_k: int, pairs: int) -> np.ndarray:
    rng = np.random.default_rng([seed, d_k])
    q, k = rng.standard_normal((2, pairs, d_k))
    return (q * k).sum(axis=-1)
