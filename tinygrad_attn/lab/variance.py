"""Why 1/sqrt(d_k)?  How far a score of random vectors lies from 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..show.table import Column, number, percent
from .result import LabTable, Picture, Progress, Verdict, quiet
from .words import speaker

WIDTHS = (16, 64, 256, 1024)


def score_variance(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = WIDTHS,
    pairs: int = 4_000,
) -> LabTable:
    """The mean and variance of q . k for independent entries of mean 0 and variance 1, at each d_k.

    Claim: mean 0, variance d_k; divided by sqrt(d_k), variance 1.  Each product q_i k_i has mean 0 and variance 1,
    and variances of independent terms add up.  Refuted by a mean or a variance more than 4 standard errors away:
    sqrt(d_k/N) for the mean, d_k sqrt((2 + 6/d_k)/N) for the variance (6/d_k: products of normals have heavy tails).

    >>> [row["d_k"] for row in score_variance(seeds=1, widths=[4], pairs=100).rows]
    [4]
    """
    say = speaker(language)
    rows = []
    count = seeds * pairs
    for i, d_k in enumerate(widths):
        scores = np.concatenate([_scores(seed, d_k, pairs) for seed in range(seeds)])
        rows.append(
            {
                "d_k": d_k,
                "mean": float(scores.mean()),
                "mean_error": (d_k / count) ** 0.5,
                "variance": float(scores.var()),
                "variance_error": d_k * ((2 + 6 / d_k) / count) ** 0.5,
                "std": float(scores.std()),
                "std_scaled": float((scores / d_k**0.5).std()),
                "beyond_8": float((np.abs(scores) > 8).mean()),
            }
        )
        on_step(i + 1, len(widths))
    worst_mean = max(abs(row["mean"]) / row["mean_error"] for row in rows)
    worst_variance = max(abs(row["variance"] - row["d_k"]) / row["variance_error"] for row in rows)
    verdicts = [
        Verdict(
            say("q . k has mean 0.", "q . k tiene media 0."),
            say(f"at most {worst_mean:.1f} standard errors away", f"a lo sumo a {worst_mean:.1f} errores típicos"),
            worst_mean < 4,
        ),
        Verdict(
            say("q . k has variance d_k, and 1 after the scaling.", "q . k tiene varianza d_k, y 1 tras el escalado."),
            say(
                f"at most {worst_variance:.1f} standard errors away",
                f"a lo sumo a {worst_variance:.1f} errores típicos",
            ),
            worst_variance < 4,
        ),
    ]
    if 64 in widths:
        at_64 = next(row for row in rows if row["d_k"] == 64)
        verdicts.append(
            Verdict(
                say("At d_k = 64 a typical score is +-8.", "Con d_k = 64 una puntuación típica es ±8."),
                say(
                    f"std {at_64['std']:.2f}; {percent(at_64['beyond_8'])} lie beyond +-8",
                    f"desviación típica {at_64['std']:.2f}; el {percent(at_64['beyond_8'])} queda más allá de ±8",
                ),
                abs(at_64["variance"] - 64) < 4 * at_64["variance_error"],
            )
        )
    return LabTable(
        say("Scores of random vectors: the variance is d_k", "Puntuaciones de vectores al azar: la varianza es d_k"),
        [
            Column("d_k", "d_k"),
            Column("mean", say("mean of\nq.k", "media de\nq.k"), "{:.3f}".format),
            Column("variance", say("variance", "varianza"), number),
            Column("variance_error", say("standard\nerror", "error\ntípico"), lambda x: number(x, 2)),
            Column("std", say("std", "desv.\ntípica"), "{:.2f}".format),
            Column("std_scaled", say("std of\nq.k/sqrt(d_k)", "desv. de\nq.k/sqrt(d_k)"), "{:.3f}".format),
            Column("beyond_8", say("beyond\n+-8", "más allá\nde ±8"), percent),
        ],
        rows,
        [say(f"{count:,} pairs with entries N(0,1).", f"{count:,} pares con componentes N(0,1).")],
        verdicts=verdicts,
        picture=Picture("d_k", "variance", spread="variance_error", log_x=True, log_y=True),
        say=say,
    )


def _scores(seed: int, d_k: int, pairs: int) -> np.ndarray:
    rng = np.random.default_rng([seed, d_k])
    q, k = rng.standard_normal((2, pairs, d_k))
    return (q * k).sum(axis=-1)
