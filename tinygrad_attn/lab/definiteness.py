"""All scores come from one matrix: S = X M X^T with M = W_Q W_K^T.  What can M be?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from .experiment import Run, experiment
from .result import Column, Picture, matching, slashed, two_digits, yes_or_no


@experiment(
    "What can M = W_Q W_K^T be?",
    title="What W_Q and W_K make together: M = W_Q W_K^T",
    columns=[
        Column("d_k", "d_k"),
        yes_or_no("tied", "W_Q = W_K"),
        Column("rank", "rank"),
        Column("smallest", "smallest\neigenvalue", two_digits),
        Column("largest", "largest", two_digits),
        Column("negative", "how many\n< 0", "{:.1f}".format),
        Column("zero", "= 0", "{:.1f}".format),
    ],
    picture=Picture("d_k", "smallest", by=("tied",), log_x=True),
)
def rank_and_definiteness(run: Run, *, widths: Sequence[int] = (4, 16, 64, 128), d_model: int = 64) -> None:
    """Rank and eigenvalues of M = W_Q W_K^T (tokens are rows), independent and tied, for d_k below and above d_model.

    x M x^T only feels the symmetric part (M + M^T)/2, so its eigenvalues say whether a token can dislike itself.

    Claim: rank M <= d_k; tied, M = W W^T is positive semidefinite, with d_model - d_k zeros where d_k < d_model;
    independent, there are negative eigenvalues.  Refuted by a larger rank, a tied eigenvalue below -1e-10 of the
    largest, or an independent M without negative ones.
    """
    for d_k, tied in run.each(product(widths, (False, True))):
        ranks, spectra = zip(*run.over_seeds(lambda seed: _spectrum(seed, d_model, d_k, tied)))
        run.row(
            d_k=d_k,
            tied=tied,
            rank=max(ranks),
            smallest=min(float(values[0]) for values in spectra),
            largest=max(float(values[-1]) for values in spectra),
            negative=float(np.mean([(values < -1e-10 * values[-1]).sum() for values in spectra])),
            zero=float(np.mean([(np.abs(values) <= 1e-10 * values[-1]).sum() for values in spectra])),
        )
    run.note(
        "d_model {d_model}, seeds: {seeds}; eigenvalues of (M + M^T)/2.  With tokens as rows the tied form is W W^T "
        "({d_model} x {d_model}), not W^T W (d_k x d_k)."
    )
    free, tied_rows = (matching(run.rows, {"tied": tied}) for tied in (False, True))
    bounded = all(row["rank"] <= min(row["d_k"], d_model) for row in run.rows)
    run.verdict("M = W_Q W_K^T has at most rank d_k.", bounded, slashed("{0[rank]} (d_k {0[d_k]})".format, free))
    semi, smallest = not any(run.column("negative", tied=True)), slashed("{0[smallest]:.1g}".format, tied_rows)
    run.verdict("Tied, M = W W^T has no negative eigenvalue.", semi, "smallest {}", smallest)
    run.verdict(
        "Tied, all eigenvalues are positive.",
        not any(run.column("zero", tied=True)),
        "zeros {}: d_model - d_k of them, only semidefinite",
        slashed("{0[zero]:.0f} (d_k {0[d_k]})".format, tied_rows),
    )
    negative = run.column("negative", tied=False)
    run.verdict("Independent, M has negative eigenvalues.", min(negative) > 0, slashed("{:.0f}".format, negative))


def _spectrum(seed: int, d_model: int, d_k: int, tied: bool) -> tuple[int, np.ndarray]:
    """The rank of M, and the eigenvalues of its symmetric part, smallest first."""
    rng = np.random.default_rng([seed, d_k, 9])
    W_Q, W_K = rng.standard_normal((2, d_model, d_k)) / d_model**0.5
    M = W_Q @ (W_Q if tied else W_K).T  # (d_model, d_model)
    return int(np.linalg.matrix_rank(M)), np.linalg.eigvalsh((M + M.T) / 2)
