"""Why three matrices?  One task, trained with W_Q, W_K, W_V independent and with some of them the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from .experiment import Run, experiment
from .result import ACCURACY, Column, Picture, accuracy, clearly_above, percent
from .successor import Finder, finals, trained

TIES: dict[str, str | None] = {"independent": None, "K = V": "kv", "Q = K": "qk", "Q = K = V": "qkv"}


@experiment(
    "Do we need three matrices?",
    title="Three matrices, two, or one",
    columns=[
        Column("d_k", "d_k = d_v"),
        Column("matrices", "matrices", left=True),
        Column("weights", "weights"),
        Column("step", "step"),
        *ACCURACY,
    ],
    picture=Picture("step", "accuracy", by=("matrices",), spread="spread", panel="d_k"),
)
def tied_and_independent(run: Run, *, widths: Sequence[int] = (8, 16), steps: int = 200, every: int = 50) -> None:
    """The successor task with three matrices, two, or one, at two head widths.

    Who follows whom has a direction, and with W_Q = W_K the scores of a pair are the same both ways.  What finds a
    token (its symbol) is not what is wanted of it (its label), and with W_K = W_V one vector must be both.

    Claim: each tie costs accuracy.  Refuted, tie by tie, where the independent matrices are not clearly ahead at the
    end (twice the standard error over the seeds).  Ties save weights; the table counts them.
    """
    reached = {}
    for d_k, name in run.each(product(widths, TIES)):
        finder: dict[str, Any] = {"d_k": d_k, "d_v": d_k, "tie": TIES[name]}
        weights = sum(p.size for path, p in Finder(0, **finder).named_parameters() if path != "W_O")
        runs = run.over_seeds(lambda seed: trained(seed, steps, every=every, **finder))
        reached[d_k, name] = finals(runs)
        for same in zip(*runs):
            shared = {"d_k": d_k, "matrices": name, "weights": weights, "step": same[0].step}
            run.row(**shared, **accuracy([look.accuracy for look in same]))
    run.main = lambda row: row["step"] in (steps // 2, steps)
    run.note("seeds: {seeds}; guessing is right in 12.5%.")
    for name, lesson in {
        "Q = K": "Scores that cannot tell directions apart cost accuracy (Q = K).",
        "K = V": "One vector for being found and for being read costs accuracy (K = V).",
        "Q = K = V": "One matrix for all three costs accuracy (Q = K = V).",
    }.items():
        for d_k in widths:
            one, two = reached[d_k, "independent"], reached[d_k, name]
            shares = (percent(float(np.mean(accuracies))) for accuracies in (one, two))
            run.verdict(lesson, clearly_above(one, two), "d_k = {}: {} independent, {} tied", d_k, *shares)
