"""All scores come from one matrix: S = X M X^T with M = W_Q W_K^T.  What can M be?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..show.table import Column, number
from .columns import yes_or_no
from .result import LabTable, Picture, Progress, Verdict, quiet
from .words import speaker

D_MODEL = 64


def rank_and_definiteness(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (4, 16, 64, 128),
    d_model: int = D_MODEL,
) -> LabTable:
    """Rank and eigenvalues of M = W_Q W_K^T (tokens are rows), independent and tied, for d_k below and above d_model.

    x M x^T only feels the symmetric part (M + M^T)/2, so its eigenvalues say whether a token can dislike itself.

    Claim: rank M <= d_k; tied, M = W W^T is positive semidefinite, with d_model - d_k zeros where d_k < d_model;
    independent, there are negative eigenvalues.  Refuted by a larger rank, a tied eigenvalue below -1e-10 of the
    largest, or an independent M without negative ones.
    """
    say = speaker(language)
    rows = []
    for d_k in widths:
        for tied in (False, True):
            found = [_spectrum(seed, d_model, d_k, tied) for seed in range(seeds)]
            rows.append(
                {
                    "d_k": d_k,
                    "tied": tied,
                    "rank": max(rank for rank, _ in found),
                    "smallest": min(float(values[0]) for _, values in found),
                    "largest": max(float(values[-1]) for _, values in found),
                    "negative": float(np.mean([(values < -1e-10 * values[-1]).sum() for _, values in found])),
                    "zero": float(np.mean([(np.abs(values) <= 1e-10 * values[-1]).sum() for _, values in found])),
                }
            )
            on_step(len(rows), 2 * len(widths))
    tied_rows, free = [row for row in rows if row["tied"]], [row for row in rows if not row["tied"]]
    verdicts = [
        Verdict(
            say("M = W_Q W_K^T has at most rank d_k.", "M = W_Q W_K^T tiene a lo sumo rango d_k."),
            " / ".join(f"{row['rank']} (d_k {row['d_k']})" for row in free),
            all(row["rank"] <= min(row["d_k"], d_model) for row in rows),
        ),
        Verdict(
            say("Tied, M = W W^T has no negative eigenvalue.", "Ligadas, M = W W^T no tiene autovalores negativos."),
            say("smallest ", "mínimo ") + " / ".join(number(row["smallest"], 1) for row in tied_rows),
            all(row["negative"] == 0 for row in tied_rows),
        ),
        Verdict(
            say("Tied, all eigenvalues are positive.", "Ligadas, todos los autovalores son positivos."),
            say("zeros ", "ceros ")
            + " / ".join(f"{row['zero']:.0f} (d_k {row['d_k']})" for row in tied_rows)
            + say(": d_model - d_k of them, only semidefinite", ": d_model - d_k de ellos, solo semidefinida"),
            all(row["zero"] == 0 for row in tied_rows),
        ),
        Verdict(
            say("Independent, M has negative eigenvalues.", "Independientes, M tiene autovalores negativos."),
            " / ".join(f"{row['negative']:.0f}" for row in free),
            all(row["negative"] > 0 for row in free),
        ),
    ]
    return LabTable(
        say("What W_Q and W_K make together: M = W_Q W_K^T", "Lo que W_Q y W_K forman juntas: M = W_Q W_K^T"),
        [
            Column("d_k", "d_k"),
            yes_or_no("tied", "W_Q = W_K", say),
            Column("rank", say("rank", "rango")),
            Column("smallest", say("smallest\neigenvalue", "menor\nautovalor"), lambda x: number(x, 2)),
            Column("largest", say("largest", "mayor"), lambda x: number(x, 2)),
            Column("negative", say("how many\n< 0", "cuántos\n< 0"), "{:.1f}".format),
            Column("zero", "= 0", "{:.1f}".format),
        ],
        rows,
        [
            say(
                f"d_model {d_model}, seeds: {seeds}; eigenvalues of (M + M^T)/2.  With tokens as rows the tied form is W W^T "
                f"({d_model} x {d_model}), not W^T W (d_k x d_k).",
                f"d_model {d_model}, semillas: {seeds}; autovalores de (M + M^T)/2.  Por filas, la forma ligada es "
                f"W W^T ({d_model} x {d_model}), no W^T W (d_k x d_k).",
            )
        ],
        verdicts=verdicts,
        picture=Picture("d_k", "smallest", by=("tied",), log_x=True),
        say=say,
    )


def _spectrum(seed: int, d_model: int, d_k: int, tied: bool) -> tuple[int, np.ndarray]:
    """The rank of M, and the eigenvalues of its symmetric part, smallest first."""
    rng = np.random.default_rng([seed, d_k, 9])
    W_Q, W_K = rng.standard_normal((2, d_model, d_k)) / d_model**0.5
    M = W_Q @ (W_Q if tied else W_K).T  # (d_model, d_model)
    return int(np.linalg.matrix_rank(M)), np.linalg.eigvalsh((M + M.T) / 2)
