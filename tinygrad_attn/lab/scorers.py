"""Three ways to score a query and a key: additive, dot product, scaled dot product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from ..autodiff.blas import one_thread_blas
from ..autodiff.functions import cross_entropy
from ..autodiff.tensor import Tensor
from .counting import count, milliseconds
from .experiment import Run, experiment
from .result import ACCURACY, Column, Picture, accuracy, clearly_above, percent, slashed, two_digits
from .successor import BATCH, Finder, Successor, best_rate, finals

SCORERS = ("additive", "dot", "scaled")


@experiment(
    "Additive, dot product or scaled dot product?",
    title="Additive, dot product, scaled dot product",
    columns=[
        Column("d_k", "d_k"),
        Column("scorer", "score", left=True),
        *ACCURACY,
        Column("rate", "learning\nrate", "{:g}".format),
        Column("operations", "operations", lambda x: f"{x / 1e6:.2f}"),
        Column("bytes", "kept", lambda x: f"{x / 1e3:,.0f}"),
        Column("milliseconds", "one step", two_digits),
    ],
    units={"operations": "10^6", "bytes": "kB", "milliseconds": "ms"},
    picture=Picture("d_k", "accuracy", by=("scorer",), spread="spread", log_x=True),
)
def additive_dot_and_scaled(
    run: Run, *, widths: Sequence[int] = (16, 64, 256), steps: int = 80, rates: Sequence[float] = (1.0, 2.0, 3.0)
) -> None:
    """The successor task with each scorer at each d_k: accuracy, counted operations and bytes, and the clock.

    additive: w . tanh(q W_q + k W_k), 32 hidden units; dot: q . k; scaled: q . k / sqrt(d_k).  Each takes the better of
    the learning rates.  Operations: of one forward pass; bytes: what it keeps for backward (counting.py).

    Claim: at small d_k the three are similar; at large d_k additive is ahead of the *unscaled* dot product, and costs
    more time and memory; the scaling removes its advantage.  Refuted, at the largest d_k, by an additive accuracy not
    clearly above that of the dot product, or one clearly above the scaled one; by smaller counts.
    """
    reached = {}
    for d_k, scorer in run.each(product(widths, SCORERS)):
        rate, runs = best_rate(run, rates, steps, d_k=d_k, scorer=scorer)
        reached[d_k, scorer] = finals(runs)
        run.row(d_k=d_k, scorer=scorer, **accuracy(finals(runs)), rate=rate, **_cost(d_k, scorer))
    run.note("seeds: {seeds}; {steps} steps. Counts and clock: one batch of 16 x 16 tokens; additive: 32 hidden units.")
    _verdicts(run, reached, min(widths), max(widths))


@one_thread_blas()
def _cost(d_k: int, scorer: str) -> dict[str, float]:
    """Operations and bytes of one forward pass, and the median milliseconds of forward and backward."""
    finder = Finder(0, d_k, scorer=scorer)
    x, right = Successor(0).batch(np.random.default_rng(0), BATCH)
    counted = count(finder(Tensor(x)))
    clock = np.median([milliseconds(lambda: cross_entropy(finder(Tensor(x)), right).backward()) for _ in range(5)])
    return {"operations": counted.operations, "bytes": counted.bytes, "milliseconds": float(clock)}


def _verdicts(run: Run, reached: dict[tuple[int, str], list[float]], small: int, large: int) -> None:
    at = {d_k: {scorer: float(np.mean(reached[d_k, scorer])) for scorer in SCORERS} for d_k in (small, large)}
    run.verdict(
        "At d_k = {small} the three are similar.",
        max(at[small].values()) - min(at[small].values()) < 0.15,
        "{} (additive / dot / scaled)",
        slashed(percent, at[small].values()),
        small=small,
    )
    run.verdict(
        "At d_k = {large} additive is ahead of the unscaled dot product.",
        clearly_above(reached[large, "additive"], reached[large, "dot"]),
        "{} (additive / dot / scaled)",
        slashed(percent, at[large].values()),
        large=large,
    )
    ahead = clearly_above(reached[large, "additive"], reached[large, "scaled"])
    run.verdict(
        "The scaling takes that advantage away.",
        at[large]["scaled"] > at[large]["dot"] and not ahead,
        slashed(percent, [at[large]["scaled"], at[large]["additive"]]),
    )
    operations, kept = (
        run.column(key, d_k=large, scorer="additive")[0] / run.column(key, d_k=large, scorer="dot")[0]
        for key in ("operations", "bytes")
    )
    run.verdict(
        "Additive is slower and hungrier.",
        operations > 1 and kept > 1,
        "{:.1f} times the operations, {:.1f} times the bytes at d_k = {}",
        *(operations, kept, large),
    )
