"""Where do gradients vanish in attention without 1/sqrt(d_k)?

The scores of independent q, k ~ N(0,1) have standard deviation sqrt(d_k).  Without the scaling softmax
saturates, its Jacobian p_i (delta_ij - p_j) goes to 0, and with it dL/dS, the gradient that would move
attention from one key to another.

    q, k (n, d_k)   scores = q k^T ── scale ── S ── softmax ── weights ── weights v ── out
                                               │                                        │
                              dL/dS measured here, row by row          dL/d(out) ~ N(0, 1/d_v)

S is what softmax receives.  The norm of dL/dW_Q tells the opposite story, so it is measured too:

    dL/dW_Q = x^T (scale dL/dS) k     scale is 1/sqrt(d_k), or 1 when unscaled

Most rows of dL/dS are dead in the unscaled run, but the few live ones arrive sqrt(d_k) times larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..attention import scaled_dot_product_attention
from ..autodiff.blas import one_thread_blas
from ..autodiff.mode import watching
from ..autodiff.tensor import Tensor
from ..probe.meters import rows as meters_of
from ..show.table import Column, Table
from .experiment import Progress, Run, experiment, quiet
from .result import Picture, mean_and_spread, percent, slashed, two_digits, yes_or_no

KEYS, D_V, D_MODEL = 16, 16, 64
DEAD = 1e-3  # a row of dL/dS with a smaller norm moves no attention
CHUNK = 125  # sequences at a time: 16 MB of q at d_k 1024

EXPLANATION = (
    "Unscaled, softmax saturates: the typical row of dL/dS dies, attention is stuck.",
    "dL/dW_Q = x^T (scale dL/dS) k still grows: the live rows lack 1/sqrt(d_k).",
)


@dataclass
class Sample:
    """What was measured for one d_k and one variant; sequences come first: (sequences, n) per row of S."""

    d_k: int
    scaled: bool
    score_std: float  # of S
    entropy: np.ndarray  # of the weights, over log n
    jacobian: np.ndarray  # Frobenius norm of softmax's Jacobian
    score_gradient: np.ndarray  # norm of a row of dL/dS
    query_ratio: np.ndarray | None = None  # (draws,) |dL/dW_Q| unscaled / scaled; None for the scaled variant

    def row(self) -> dict[str, Any]:
        """The table's numbers: a mean for the entropy, medians for the rest."""
        return {
            "d_k": self.d_k,
            "scaled": self.scaled,
            "score_std": self.score_std,
            "entropy_over_log_n": float(self.entropy.mean()),
            "softmax_jacobian_norm": float(np.median(self.jacobian)),
            "score_gradient_row_norm": float(np.median(self.score_gradient)),
            "dead_rows": float((self.score_gradient < DEAD).mean()),
            "W_Q_gradient_ratio": None if self.query_ratio is None else float(np.median(self.query_ratio)),
        }


COLUMNS = (
    Column("d_k", "d_k"),
    yes_or_no("scaled", "scaled"),
    Column("score_std", "std\nof S", "{:.1f}".format),
    Column("entropy_over_log_n", "entropy\n/ log n", "{:.3f}".format),
    Column("softmax_jacobian_norm", "softmax\nJacobian", two_digits),
    Column("score_gradient_row_norm", "a row\nof dL/dS", two_digits, lambda x: "red" if x < 10 * DEAD else ""),
    Column("dead_rows", "rows\n< 1e-3", percent, lambda x: "red" if x > 0.1 else ""),
    Column("W_Q_gradient_ratio", "dL/dW_Q\nratio", two_digits),
)


def vanishing(
    widths: Sequence[int] = (16, 64, 256, 1024),
    rows: int = 20_000,
    draws: int = 240,
    seed: int = 0,
    on_step: Progress = quiet,
) -> list[Sample]:
    """Measure score gradients for each d_k in `widths`, scaled and unscaled on the same draws.

    rows: rows of S, 16 to a sequence.  draws: pairs of runs for dL/dW_Q, with W ~ N(0, 1/d_model).
    All in float64, so that nothing underflows.  on_step(done, total) is called as the work goes on.

    >>> print(table(vanishing(widths=[16], rows=2_000, draws=20)))  # doctest: +ELLIPSIS
    Vanishing gradients: ...
    """
    samples: list[Sample] = []
    total = 2 * len(widths)
    with one_thread_blas():  # many small products
        for i, d_k in enumerate(widths):
            rng = np.random.default_rng([seed, d_k])
            scaled, unscaled = _score_gradients(rng, d_k, max(rows // KEYS, 1))
            on_step(2 * i + 1, total)
            unscaled.query_ratio = _query_ratios(rng, d_k, draws)
            on_step(2 * i + 2, total)
            samples += [scaled, unscaled]
    return samples


def table(samples: Sequence[Sample]) -> Table:
    """The samples as a table to print or to write."""
    count = samples[0].score_gradient.size
    return Table(
        "Vanishing gradients: S is what softmax receives",
        COLUMNS,
        [sample.row() for sample in samples],
        [
            f"{count:,} rows of {KEYS} keys; q, k, v ~ N(0,1); d_v = {D_V}; dL/d(out) ~ N(0,1)/4.",
            "Medians (entropy: mean); Frobenius norm of the Jacobian; ratio: unscaled/scaled.",
        ],
    )


@experiment(
    "Where do gradients vanish, and where do they not?",
    seeds=4,
    title="Vanishing gradients: S is what softmax receives",
    columns=[
        Column("d_k", "d_k"),
        yes_or_no("scaled", "scaled"),
        Column("score_std", "std\nof S", "{:.1f}".format),
        Column("row_norm", "median row\nof dL/dS", two_digits),
        Column("dead", "rows\n< 1e-3", percent),
        Column("W_Q_ratio", "dL/dW_Q\nratio", two_digits),
    ],
    picture=Picture("d_k", "row_norm", by=("scaled",), spread="row_norm_spread", log_x=True, log_y=True),
)
def vanishing_gradients(
    run: Run, *, widths: Sequence[int] = (16, 64, 256, 1024), rows: int = 4_000, draws: int = 40
) -> None:
    """The gradient that reaches a row of scores, with and without 1/sqrt(d_k), beside that of W_Q.

    Claim: unscaled, the median row of dL/dS falls towards 0 as d_k grows and more and more rows are dead; scaled, it
    stays.  Refuted by medians that do not fall, or scaled rows that die.  A second sentence is often said with it, that
    the *parameters'* gradients vanish: refuted where |dL/dW_Q| unscaled is larger than scaled (a ratio above 1).
    """
    runs = [vanishing(widths, rows, draws, seed) for seed in run.each(range(run.seeds))]
    for same in zip(*([sample.row() for sample in samples] for samples in runs)):
        norm, spread = mean_and_spread([row["score_gradient_row_norm"] for row in same])
        ratios = [row["W_Q_gradient_ratio"] for row in same]
        run.row(
            d_k=same[0]["d_k"],
            scaled=same[0]["scaled"],
            score_std=float(np.mean([row["score_std"] for row in same])),
            row_norm=norm,
            row_norm_spread=spread,
            dead=float(np.mean([row["dead_rows"] for row in same])),
            W_Q_ratio=None if None in ratios else float(np.mean(ratios)),
        )
    run.note("The few live rows lack the factor 1/sqrt(d_k): the gradients of the parameters tell the opposite story.")
    norms, ratios = (run.column(key, scaled=False) for key in ("row_norm", "W_Q_ratio"))
    dead = run.column("dead", scaled=True)
    falls = all(a > b for a, b in pairwise(norms))
    sentence = "Without 1/sqrt(d_k) the gradient of the scores vanishes."
    run.verdict(sentence, falls, "median row of dL/dS {}", slashed(two_digits, norms))
    run.verdict("With it, no row dies at any d_k.", max(dead) < 1e-3, slashed(percent, dead))
    sentence = "Without it the gradient of W_Q vanishes too."
    run.verdict(sentence, max(ratios) < 1, "{} times the scaled one", slashed(two_digits, ratios))


def _score_gradients(rng: np.random.Generator, d_k: int, sequences: int) -> tuple[Sample, Sample]:
    parts: dict[bool, list[tuple[np.ndarray, ...]]] = {True: [], False: []}
    for start in range(0, sequences, CHUNK):
        size = min(CHUNK, sequences - start)
        q, k, v = (rng.standard_normal((size, KEYS, width)) for width in (d_k, d_k, D_V))
        gradient = rng.standard_normal((size, KEYS, D_V)) / np.sqrt(D_V)
        for scaled in (True, False):
            parts[scaled].append(_measure(q, k, v, gradient, None if scaled else 1.0))
    both = []
    for scaled in (True, False):
        S, *norms = (np.concatenate(arrays) for arrays in zip(*parts[scaled]))
        both.append(Sample(d_k, scaled, float(S.std()), *norms))
    return both[0], both[1]


def _measure(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, gradient: np.ndarray, scale: float | None
) -> tuple[np.ndarray, ...]:
    """S, entropy, Jacobian norm and row norm of dL/dS, each (sequences, n, ...)."""
    named: dict[str, Tensor] = {}
    with watching(named.__setitem__):
        out, weights = scaled_dot_product_attention(Tensor(q, requires_grad=True), k, v, scale=scale)
    S = named["scaled"].retain_grad()
    out.backward(gradient)
    assert S.grad is not None
    row_norms = np.linalg.norm(S.grad.data, axis=-1)  # (sequences, n)
    meters = meters_of(weights.data)
    return S.numpy(), meters.entropy, meters.jacobian, row_norms


def _query_ratios(rng: np.random.Generator, d_k: int, draws: int) -> np.ndarray:
    """|dL/dW_Q| unscaled over scaled, in `draws` random attentions of one sequence each: (draws,)"""
    ratios = []
    for start in range(0, draws, 40):
        size = min(40, draws - start)
        x = rng.standard_normal((size, KEYS, D_MODEL))  # (size, n, d_model)
        W_Q, W_K, W_V = (rng.standard_normal((size, D_MODEL, d)) / np.sqrt(D_MODEL) for d in (d_k, d_k, D_V))
        gradient = rng.standard_normal((size, KEYS, D_V)) / np.sqrt(D_V)
        norms = []
        for scale in (1.0, None):
            W = Tensor(W_Q, requires_grad=True)
            out, _ = scaled_dot_product_attention(Tensor(x) @ W, x @ W_K, x @ W_V, scale=scale)
            out.backward(gradient)
            assert W.grad is not None
            norms.append(np.sqrt((W.grad.data**2).sum(axis=(-2, -1))))
        ratios.append(norms[0] / norms[1])
    return np.concatenate(ratios)
