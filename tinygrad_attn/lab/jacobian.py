"""softmax's Jacobian, written out: it is what backward multiplies with, and saturation is what empties it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product

import numpy as np

from ..autodiff.functions import softmax
from ..autodiff.tensor import Tensor
from ..probe.meters import rows as meters_of
from .experiment import Run, experiment
from .result import Column, Picture, number, percent, slashed, two_digits, yes_or_no

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


@experiment(
    "What is left of softmax's Jacobian at large scores?",
    title="softmax's Jacobian and saturation",
    columns=[
        Column("d_k", "d_k"),
        yes_or_no("scaled", "scaled"),
        Column("entropy", "entropy\n/ log n", "{:.3f}".format),
        Column("largest", "largest\nweight", "{:.4f}".format),
        Column("jacobian", "norm of the\nJacobian", two_digits),
        Column("difference", "explicit\n- backward", partial(number, digits=1)),
        Column("textbook_zeros", "textbook\nzeros", percent),
    ],
    picture=Picture("d_k", "jacobian", by=("scaled",), log_x=True, log_y=True),
)
def jacobian_and_saturation(run: Run, *, widths: Sequence[int] = (16, 64, 256, 1024), samples: int = 400) -> None:
    """softmax's Jacobian on rows of 16 scores q . k of random vectors, scaled and unscaled, at each d_k.

    Claim: what backward multiplies with is p_i (delta_ij - p_j), and that matrix goes to 0 as the scores grow.
    Refuted by entries that differ by more than rounding (1e-12 of the matrix's size), by unscaled norms that do not
    fall with d_k, or scaled ones that do.  Beside it the textbook line p (g - sum p g) in float32: in how many rows
    it rounds the winner's gradient to exactly 0, where the right one is not 0.
    """
    for d_k, scaled in run.each(product(widths, (True, False))):
        scores = np.concatenate(run.over_seeds(lambda seed: _scores(seed, d_k, samples)))
        scores = scores / d_k**0.5 if scaled else scores
        J, found = softmax_jacobian(scores), backward_jacobian(scores)
        meters = meters_of(softmax(scores).numpy())
        run.row(
            d_k=d_k,
            scaled=scaled,
            difference=float((np.abs(J - found).max(axis=(-2, -1)) / np.abs(J).max(axis=(-2, -1))).max()),
            entropy=float(meters.entropy.mean()),
            largest=float(np.median(meters.largest)),
            jacobian=float(np.median(np.linalg.norm(J, axis=(-2, -1)))),
            textbook_zeros=_textbook_zeros(scores.astype(np.float32)),
        )
    run.note("{:,} rows of 16 keys; medians (entropy: mean); Frobenius norm.", run.seeds * samples)
    run.note("textbook zeros: rows where p (g - sum p g) in float32 gives the winner no gradient at all.")
    worst, norms, alive = max(run.column("difference")), *(run.column("jacobian", scaled=it) for it in (False, True))
    sentence = "The explicit Jacobian is what backward uses."
    run.verdict(sentence, worst < 1e-12, "largest relative difference {:.1g}", worst)
    falls, steady = all(a > b for a, b in pairwise(norms)), max(alive) < 1.1 * min(alive)
    run.verdict("Large scores saturate softmax: its Jacobian goes to 0.", falls, slashed(two_digits, norms))
    run.verdict("Scaled, it is the same at every d_k.", steady, slashed(number, alive))


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
