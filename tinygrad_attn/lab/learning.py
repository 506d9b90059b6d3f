"""Does the model stop learning where to look, without 1/sqrt(d_k)?  A pair of trainings at each d_k."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .experiment import Run, experiment
from .result import ACCURACY, Column, Picture, accuracy, clearly_above, percent, slashed
from .successor import LABELS, UNIT, best_rate, finals

SMALL = "unscaled, sigma 0.02"


@experiment(
    "Does a model without 1/sqrt(d_k) stop learning?",
    title="Learning with and without 1/sqrt(d_k)",
    columns=[
        Column("d_k", "d_k"),
        Column("variant", "variant", left=True),
        Column("rate", "learning\nrate", "{:g}".format),
        Column("step", "step"),
        *ACCURACY,
        Column("stuck", "stuck\nqueries", percent),
    ],
    picture=Picture("step", "accuracy", by=("variant",), spread="spread", panel="d_k"),
)
def learning_with_and_without_scaling(
    run: Run,
    *,
    widths: Sequence[int] = (16, 64, 256, 1024),
    steps: int = 80,
    every: int = 20,
    rates: Sequence[float] = (3.0, 10.0),
) -> None:
    """The successor task (successor.py) with and without the scaling, at each d_k: accuracy and stuck queries.

    A query is stuck when its answer is wrong and its row of dL/dS is below 1e-3 of a row's own loss.  Plain SGD; each
    variant takes the better of the learning rates, so that neither is handicapped; q and k start with unit variance.
    A third variant starts from sigma 0.02, as transformers do: tiny scores, where nothing is saturated.

    Claim: unscaled, the share of stuck queries grows with d_k and the model falls behind.  Refuted when, at the largest
    d_k, the scaled accuracy is not clearly above (twice the standard error over the seeds).  The strong sentence,
    "it stops learning", is refuted when the unscaled accuracy still reaches twice the level of guessing.
    """
    widest = max(widths)
    reached = {}
    jobs = [(d_k, variant) for d_k in widths for variant in ("scaled", "unscaled", SMALL)]
    for d_k, variant in run.each((d_k, variant) for d_k, variant in jobs if variant != SMALL or d_k == widest):
        scorer, sigma = "scaled" if variant == "scaled" else "dot", 0.02 if variant == SMALL else UNIT
        rate, runs = best_rate(run, rates, steps, every, d_k=d_k, scorer=scorer, sigma=sigma)
        reached[d_k, variant] = finals(runs)
        for same in zip(*runs):
            shared = {"d_k": d_k, "variant": variant, "rate": rate, "step": same[0].step}
            stuck = float(np.mean([look.stuck for look in same]))
            run.row(**shared, **accuracy([look.accuracy for look in same]), stuck=stuck)
    run.main = lambda row: row["step"] in (0, steps // 2 // every * every, steps)
    run.note("seeds: {seeds}; mean and standard deviation; guessing is right in 12.5%. Stuck: wrong, and no gradient.")
    _verdicts(run, reached, widest)


def _verdicts(run: Run, reached: dict[tuple[int, str], list[float]], widest: int) -> None:
    scaled, unscaled = (reached[widest, variant] for variant in ("scaled", "unscaled"))
    share = float(np.mean(unscaled))
    start = run.column("stuck", variant="unscaled", step=0)
    (small,) = run.column("stuck", variant=SMALL, step=0)
    run.verdict(
        "Without the scaling, more queries are stuck the larger d_k is.",
        all(a <= b for a, b in pairwise(start)) and start[-1] > 0.2,
        "{} at the start",
        slashed(percent, start),
    )
    run.verdict(
        "At d_k = {widest} the scaled model learns better.",
        clearly_above(scaled, unscaled),
        "{} after {steps} steps, scaled / unscaled",
        slashed(percent, [float(np.mean(scaled)), share]),
        widest=widest,
    )
    run.verdict(
        "Without the scaling the model stops learning where to look.",
        share < 2 / LABELS,
        "at d_k = {} it reaches {}"
        if share < 2 / LABELS
        else "at d_k = {} it reaches {}: slower, not stopped, "
        "because the live rows share W_Q and W_K with the stuck ones",
        *(widest, percent(share)),
    )
    run.verdict(
        "Starting from sigma 0.02 hides the saturation.",
        small < 0.01 < start[-1],
        "{} stuck at the start at d_k = {} instead of {}",
        *(percent(small), widest, percent(start[-1])),
    )
