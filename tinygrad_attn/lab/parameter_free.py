"""Attention without any weights: sim(x_i, x_j) x_j, against the learned one."""

from __future__ import annotations

from .experiment import Run, experiment
from .result import ACCURACY, Column, accuracy, clearly_above, percent, slashed
from .successor import Finder, finals, trained


@experiment(
    "What can attention do without weights?",
    seeds=4,
    title="Attention without weights, and learned",
    columns=[Column("attention", "attention", left=True), Column("weights", "weights"), *ACCURACY],
)
def parameter_free_and_learned(run: Run, *, steps: int = 100) -> None:
    """The successor task with x itself as q, k and v, against learned W_Q, W_K, W_V; the read-out is trained in both.

    Claim: parameter-free attention has nothing to train and can only look at what is similar; a learned one can look
    at what is *related*.  Refuted where the learned attention is not clearly ahead, or the other has parameters.
    """
    reached = {}
    for name, scorer in run.each({"x x^T x": "none", "learned": "scaled"}.items()):
        weights = sum(p.size for path, p in Finder(0, scorer=scorer).named_parameters() if path != "W_O")
        reached[scorer] = finals(run.over_seeds(lambda seed: trained(seed, steps, scorer=scorer)))
        run.row(attention=name, weights=weights, **accuracy(reached[scorer]))
    run.note(
        "seeds: {seeds}; {steps} steps; guessing is right in 12.5%, the commonest label of the sequence in about 25%."
    )
    counts = run.column("weights")
    run.verdict("sim(x_i, x_j) x_j has no parameters.", counts[0] == 0, slashed(str, counts))
    ahead, shares = clearly_above(reached["scaled"], reached["none"]), slashed(percent, run.column("accuracy"))
    run.verdict("It cannot learn who follows whom; the learned one can.", ahead, shares)
