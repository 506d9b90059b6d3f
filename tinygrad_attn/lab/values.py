"""d_v is free: keys decide where to look, values what is carried away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .experiment import Run, experiment
from .result import ACCURACY, Column, Picture, accuracy, clearly_above, percent, slashed
from .successor import Finder, Successor, finals, trained, weights_of

D_K = 16


@experiment(
    "May d_v differ from d_k?",
    seeds=4,
    title="Values of another width than keys (d_k = 16)",
    columns=[
        Column("d_v", "d_v"),
        Column("W_V", "W_V"),
        Column("difference", "change of\nweights", "{:g}".format),
        *ACCURACY,
    ],
    picture=Picture("d_v", "accuracy", spread="spread", log_x=True),
)
def width_of_values(run: Run, *, widths: Sequence[int] = (1, 2, 4, 16, 64), steps: int = 100) -> None:
    """The successor task at d_k = 16 with values narrower and wider than the keys.

    Claim: d_v may differ from d_k.  The weights do not depend on it (same q and k, same weights, bit for bit); the
    output is as wide as v; what v is too narrow for is lost.  Refuted by weights that change with d_v, or by a d_v of 1
    that learns eight labels as well as a d_v of 16.
    """
    x, _ = Successor(0).batch(np.random.default_rng(0), 2)
    weights = {d_v: weights_of(Finder(0, D_K, d_v), x) for d_v in widths}
    reached = {}
    for d_v in run.each(widths):
        reached[d_v] = finals(run.over_seeds(lambda seed: trained(seed, steps, d_k=D_K, d_v=d_v)))
        difference = float(np.abs(weights[d_v] - weights[widths[0]]).max())
        shape = "x".join(map(str, Finder(0, D_K, d_v).W_V.shape))
        run.row(d_v=d_v, W_V=shape, difference=difference, **accuracy(reached[d_v]))
    run.note("seeds: {seeds}; {steps} steps.")
    worst = max(run.column("difference"))
    run.verdict("d_v may differ from d_k; the weights do not notice.", worst == 0, "weights differ by {:g}", worst)
    run.verdict(
        "A d_v too narrow for 8 labels loses what attention found.",
        clearly_above(reached[max(widths)], reached[min(widths)]),
        slashed(lambda row: f"{percent(row['accuracy'])} (d_v {row['d_v']})", run.rows),
    )
