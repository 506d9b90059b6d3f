"""W_Q and W_K differ, so "how much does i want j" differs from "how much does j want i"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..attention import scaled_dot_product_attention
from ..autodiff.mode import watching
from ..autodiff.tensor import Tensor
from ..show.table import Column, number, percent
from .columns import yes_or_no
from .result import LabTable, Picture, Progress, Verdict, quiet
from .words import speaker

TOKENS, D_MODEL, SAMPLES = 16, 64, 40


def asymmetry_of_scores(
    seeds: int = 5, language: str = "en", on_step: Progress = quiet, *, widths: Sequence[int] = (4, 16, 64)
) -> LabTable:
    """Scores and weights of random tokens, with W_Q and W_K independent and with W_Q = W_K.

    Claim: with independent matrices max |S - S^T| > 0; with W_Q = W_K the scores equal their transpose to rounding, and
    the *weights* still do not, because softmax normalises row by row.  Refuted by a tied S that differs from its
    transpose by more than 1e-12 of its size, by tied weights that do not, or by an independent S that is symmetric.

    A consequence of tying: S_ij <= |q_i| |q_j| (Cauchy-Schwarz), so the token with the longest q always scores highest
    with itself.
    """
    say = speaker(language)
    rows = []
    for d_k in widths:
        for tied in (False, True):
            S, A = (np.concatenate(parts) for parts in zip(*(_scores(seed, d_k, tied) for seed in range(seeds))))
            itself = S.argmax(axis=-1) == np.arange(TOKENS)  # (samples, n)
            longest = np.diagonal(S, axis1=-2, axis2=-1).argmax(axis=-1)
            rows.append(
                {
                    "d_k": d_k,
                    "tied": tied,
                    "scores": float((_asymmetry(S).max if tied else _asymmetry(S).min)()),
                    "weights": float(_asymmetry(A).min()),
                    "itself": float(itself.mean()),
                    "longest_itself": float(np.take_along_axis(itself, longest[:, None], axis=1).mean()),
                }
            )
            on_step(len(rows), 2 * len(widths))
    tied_rows, free = [row for row in rows if row["tied"]], [row for row in rows if not row["tied"]]
    verdicts = [
        Verdict(
            say(
                "With W_Q != W_K the scores are not symmetric.",
                "Con W_Q distinta de W_K las puntuaciones no son simétricas.",
            ),
            " / ".join(number(row["scores"], 2) for row in free),
            all(row["scores"] > 0.1 for row in free),
        ),
        Verdict(
            say("With W_Q = W_K the scores are symmetric.", "Con W_Q = W_K las puntuaciones son simétricas."),
            " / ".join(number(row["scores"], 2) for row in tied_rows),
            all(row["scores"] < 1e-12 for row in tied_rows),
        ),
        Verdict(
            say("With W_Q = W_K the weights are symmetric too.", "Con W_Q = W_K los pesos también son simétricos."),
            " / ".join(number(row["weights"], 2) for row in tied_rows)
            + say(": softmax works row by row", ": softmax actúa fila por fila"),
            all(row["weights"] < 1e-12 for row in tied_rows),
        ),
        Verdict(
            say(
                "With W_Q = W_K the longest query scores highest with itself.",
                "Con W_Q = W_K la consulta más larga se puntúa más a sí misma.",
            ),
            " / ".join(percent(row["longest_itself"]) for row in tied_rows),
            all(row["longest_itself"] == 1 for row in tied_rows),
        ),
    ]
    return LabTable(
        say("Symmetric or not: scores and weights", "Simétricos o no: puntuaciones y pesos"),
        [
            Column("d_k", "d_k"),
            yes_or_no("tied", "W_Q = W_K", say),
            Column("scores", say("asymmetry\nof scores", "asimetría de\npuntuaciones"), lambda x: number(x, 2)),
            Column("weights", say("asymmetry\nof weights", "asimetría\nde pesos"), lambda x: number(x, 2)),
            Column("itself", say("looks most\nat itself", "se mira más\na sí misma"), percent),
            Column("longest_itself", say("the longest\ndoes", "la más\nlarga"), percent),
        ],
        rows,
        [
            say(
                f"max |S - S^T| / max |S|; {seeds * SAMPLES} sequences of {TOKENS} tokens N(0,1), d_model {D_MODEL}; the "
                "smallest of them, for tied scores the largest.",
                f"max |S - S^T| / max |S|; {seeds * SAMPLES} secuencias de {TOKENS} elementos N(0,1), d_model {D_MODEL}; la "
                "menor de ellas, y la mayor para puntuaciones ligadas.",
            )
        ],
        verdicts=verdicts,
        picture=Picture("d_k", "scores", by=("tied",), log_x=True),
        say=say,
    )


def _scores(seed: int, d_k: int, tied: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scores and weights (samples, n, n) in float64."""
    rng = np.random.default_rng([seed, d_k, 8])
    x = Tensor(rng.standard_normal((SAMPLES, TOKENS, D_MODEL)))
    W_Q, W_K = rng.standard_normal((2, D_MODEL, d_k)) / D_MODEL**0.5
    q, k = x @ W_Q, x @ (W_Q if tied else W_K)
    named: dict[str, Tensor] = {}
    with watching(named.__setitem__):
        _, weights = scaled_dot_product_attention(q, k, x)
    return named["scores"].numpy(), weights.numpy()


def _asymmetry(S: np.ndarray) -> np.ndarray:
    """max |S - S^T| over max |S| of each sequence, (samples,)."""
    found: np.ndarray = np.abs(S - S.swapaxes(-1, -2)).max(axis=(-2, -1)) / np.abs(S).max(axis=(-2, -1))
    return found
