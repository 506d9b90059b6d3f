"""softmax's Jacobian, written out: it is what backward multiplies with, and saturation is what empties it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..autodiff.functions import softmax
from ..autodiff.tensor import Tensor
from ..probe.meters import rows as meters_of
from ..show.table import Column, number, percent
from .columns import yes_or_no
from .result import LabTable, Picture, Progress, Verdict, quiet
from .words import speaker

KEYS = 16


def softmax_jacobian(scores: np.ndarray) -> np.ndarray:
    """J[i, j] = dp_i/ds_j = p_i (delta_ij - p_j), entry by entry: (..., n) -> (..., n, n).

    1 - p_i on the diagonal is taken as the sum of the other weights, so that it survives where p_i is nearly 1.

    >>> softmax_jacobian(np.zeros(2))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    n = p.shape[-1]
    others = (p[..., None, :] * (1 - np.eye(n))).sum(axis=-1)  # 1 - p_i
    return np.where(np.eye(n, dtype=bool), (p * others)[..., None], -p[..., :, None] * p[..., None, :])


def backward_jacobian(scores: np.ndarray) -> np.ndarray:
    """The same matrix from the engine: one unit vector after the other as the gradient of softmax's backward."""
    n = scores.shape[-1]
    copies = Tensor(np.broadcast_to(scores[..., None, :], (*scores.shape, n)), requires_grad=True)
    softmax(copies).backward(np.broadcast_to(np.eye(n), copies.shape))
    assert copies.grad is not None
    return copies.grad.numpy()


def jacobian_and_saturation(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (16, 64, 256, 1024),
    samples: int = 400,
) -> LabTable:
    """softmax's Jacobian on rows of 16 scores q . k of random vectors, scaled and unscaled, at each d_k.

    Claim: what backward multiplies with is p_i (delta_ij - p_j), and that matrix goes to 0 as the scores grow.
    Refuted by entries that differ by more than rounding (1e-12 of the matrix's size), by unscaled norms that do not
    fall with d_k, or scaled ones that do.  Beside it the textbook line p (g - sum p g) in float32: in how many rows
    it rounds the winner's gradient to exactly 0, where the right one is not 0.
    """
    say = speaker(language)
    rows, total = [], len(widths) * 2
    for d_k in widths:
        for scaled in (True, False):
            scores = np.concatenate([_scores(seed, d_k, samples) for seed in range(seeds)])
            scores = scores / d_k**0.5 if scaled else scores
            J, found = softmax_jacobian(scores), backward_jacobian(scores)
            size = np.abs(J).max(axis=(-2, -1))
            meters = meters_of(softmax(scores).numpy())
            rows.append(
                {
                    "d_k": d_k,
                    "scaled": scaled,
                    "difference": float((np.abs(J - found).max(axis=(-2, -1)) / size).max()),
                    "entropy": float(meters.entropy.mean()),
                    "largest": float(np.median(meters.largest)),
                    "jacobian": float(np.median(np.linalg.norm(J, axis=(-2, -1)))),
                    "textbook_zeros": _textbook_zeros(scores.astype(np.float32)),
                }
            )
            on_step(len(rows), total)
    worst = max(row["difference"] for row in rows)
    unscaled = [row["jacobian"] for row in rows if not row["scaled"]]
    scaled_norms = [row["jacobian"] for row in rows if row["scaled"]]
    verdicts = [
        Verdict(
            say("The explicit Jacobian is what backward uses.", "El jacobiano explícito es el que usa backward."),
            say(f"largest relative difference {worst:.1g}", f"mayor diferencia relativa {worst:.1g}"),
            worst < 1e-12,
        ),
        Verdict(
            say(
                "Large scores saturate softmax: its Jacobian goes to 0.",
                "Las puntuaciones grandes saturan softmax: su jacobiano tiende a 0.",
            ),
            " / ".join(number(x, 2) for x in unscaled),
            all(a > b for a, b in zip(unscaled, unscaled[1:])),
        ),
        Verdict(
            say("Scaled, it is the same at every d_k.", "Con el escalado, es igual para todo d_k."),
            " / ".join(number(x, 3) for x in scaled_norms),
            max(scaled_norms) < 1.1 * min(scaled_norms),
        ),
    ]
    return LabTable(
        say("softmax's Jacobian and saturation", "El jacobiano de softmax y la saturación"),
        [
            Column("d_k", "d_k"),
            yes_or_no("scaled", say("scaled", "escalado"), say),
            Column("entropy", say("entropy\n/ log n", "entropía\n/ log n"), "{:.3f}".format),
            Column("largest", say("largest\nweight", "peso\nmayor"), "{:.4f}".format),
            Column("jacobian", say("norm of the\nJacobian", "norma del\njacobiano"), lambda x: number(x, 2)),
            Column("difference", say("explicit\n- backward", "explícito\n- backward"), lambda x: number(x, 1)),
            Column("textbook_zeros", say("textbook\nzeros", "ceros de\nmanual"), percent),
        ],
        rows,
        [
            say(
                f"{seeds * samples:,} rows of {KEYS} keys; medians (entropy: mean); Frobenius norm.",
                f"{seeds * samples:,} filas de {KEYS} claves; medianas (entropía: media); norma de Frobenius.",
            ),
            say(
                "textbook zeros: rows where p (g - sum p g) in float32 gives the winner no gradient at all.",
                "ceros de manual: filas en que p (g - sum p g), en float32, deja al ganador sin gradiente alguno.",
            ),
        ],
        verdicts=verdicts,
        picture=Picture("d_k", "jacobian", by=("scaled",), log_x=True, log_y=True),
        say=say,
    )


def _scores(seed: int, d_k: int, samples: int) -> np.ndarray:
    """Rows of 16 scores: every row has its own query and its own keys."""
    rng = np.random.default_rng([seed, d_k, 7])
    q, k = rng.standard_normal((samples, 1, d_k)), rng.standard_normal((samples, KEYS, d_k))
    return (q @ k.swapaxes(-1, -2))[:, 0]


def _textbook_zeros(scores: np.ndarray) -> float:
    """How often p (g - sum p g), with g = 1 at the winner, gives the winner exactly 0 in float32."""
    p = softmax(scores).numpy()
    winner = p.argmax(axis=-1)[:, None]
    g = np.zeros_like(p)
    np.put_along_axis(g, winner, np.float32(1), axis=-1)
    gradient = p * (g - (p * g).sum(axis=-1, keepdims=True))
    return float((np.take_along_axis(gradient, winner, axis=-1) == 0).mean())
