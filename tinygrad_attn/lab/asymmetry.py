"""W_Q and W_K differ, so "how much does i want j" differs from "how much does j want i"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from ..attention import scaled_dot_product_attention
from ..autodiff.mode import watching
from ..autodiff.tensor import Tensor
from .experiment import Run, experiment
from .result import Column, Picture, percent, slashed, two_digits, yes_or_no

TOKENS, D_MODEL, SAMPLES = 16, 64, 40


@experiment(
    "Is the attention matrix symmetric?",
    title="Symmetric or not: scores and weights",
    columns=[
        Column("d_k", "d_k"),
        yes_or_no("tied", "W_Q = W_K"),
        Column("scores", "asymmetry\nof scores", two_digits),
        Column("weights", "asymmetry\nof weights", two_digits),
        Column("itself", "looks most\nat itself", percent),
        Column("longest_itself", "the longest\ndoes", percent),
    ],
    picture=Picture("d_k", "scores", by=("tied",), log_x=True),
)
def asymmetry_of_scores(run: Run, *, widths: Sequence[int] = (4, 16, 64)) -> None:
    """Scores and weights of random tokens, with W_Q and W_K independent and with W_Q = W_K.

    Claim: with independent matrices max |S - S^T| > 0; with W_Q = W_K the scores equal their transpose to rounding, and
    the *weights* still do not, because softmax normalises row by row.  Refuted by a tied S that differs from its
    transpose by more than 1e-12 of its size, by tied weights that do not, or by an independent S that is symmetric.

    A consequence of tying: S_ij <= |q_i| |q_j| (Cauchy-Schwarz), so the token with the longest q always scores highest
    with itself.
    """
    for d_k, tied in run.each(product(widths, (False, True))):
        S, A = (np.concatenate(parts) for parts in zip(*run.over_seeds(lambda seed: _scores(seed, d_k, tied))))
        itself = S.argmax(axis=-1) == np.arange(TOKENS)  # (samples, n)
        longest = np.diagonal(S, axis1=-2, axis2=-1).argmax(axis=-1)
        run.row(
            d_k=d_k,
            tied=tied,
            scores=float((_asymmetry(S).max if tied else _asymmetry(S).min)()),
            weights=float(_asymmetry(A).min()),
            itself=float(itself.mean()),
            longest_itself=float(np.take_along_axis(itself, longest[:, None], axis=1).mean()),
        )
    run.note(
        "max |S - S^T| / max |S|; {} sequences of 16 tokens N(0,1), d_model 64; the smallest of them, for tied scores "
        "the largest.",
        run.seeds * SAMPLES,
    )
    free, scores = (run.column("scores", tied=tied) for tied in (False, True))
    weights, longest = (run.column(key, tied=True) for key in ("weights", "longest_itself"))
    run.verdict("With W_Q != W_K the scores are not symmetric.", min(free) > 0.1, slashed(two_digits, free))
    run.verdict("With W_Q = W_K the scores are symmetric.", max(scores) < 1e-12, slashed(two_digits, scores))
    sentence = "With W_Q = W_K the weights are symmetric too."
    run.verdict(sentence, max(weights) < 1e-12, "{}: softmax works row by row", slashed(two_digits, weights))
    sentence = "With W_Q = W_K the longest query scores highest with itself."
    run.verdict(sentence, min(longest) == 1, slashed(percent, longest))


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
