"""softmax(scores / T): from one key to all keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..autodiff.functions import softmax
from ..probe.meters import rows as meters_of
from .experiment import Run, experiment
from .result import Column, Picture, number, two_digits

KEYS, SAMPLES = 16, 200
TEMPERATURES = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


@experiment(
    "What does a temperature do to the weights?",
    title="Temperature: from one key to all keys",
    columns=[
        Column("temperature", "T", "{:g}".format),
        Column("entropy", "entropy\n/ log n", "{:.4f}".format),
        Column("largest", "largest\nweight", "{:.4f}".format),
        Column("jacobian", "median\nJacobian", two_digits),
        Column("slope", "the same\n/ T", two_digits),
    ],
    picture=Picture("temperature", "entropy", log_x=True),
)
def temperature_and_entropy(run: Run, *, temperatures: Sequence[float] = TEMPERATURES) -> None:
    """Entropy, largest weight and Jacobian of softmax(s / T), for scores s ~ N(0,1) and rising T.

    Claim: the entropy rises with T in every row (dH/dT = Var_p(s) / T^3 >= 0), from 0 at T -> 0 (one key) to log n at
    T -> infinity (all keys alike).  Refuted by a row whose entropy falls as T rises, or by other limits.  Near
    T -> infinity 1 - H/log n is Var(s)/(2 T^2 log n): at T = 100 below 1e-4.

    A third thing shows: the gradient that reaches the scores of a typical (median) row has the norm |Jacobian| / T, and
    vanishes at *both* ends: at low T because the Jacobian does, at high T because of the factor 1/T.
    """
    scores = np.concatenate(
        run.over_seeds(lambda seed: np.random.default_rng([seed, 5]).standard_normal((SAMPLES, KEYS)))
    )
    entropies = []
    for T in run.each(temperatures):
        found = meters_of(softmax(scores / T).numpy())
        entropies.append(found.entropy)
        jacobian = float(np.median(found.jacobian))
        means = {"entropy": float(found.entropy.mean()), "largest": float(found.largest.mean())}
        run.row(temperature=T, **means, jacobian=jacobian, slope=jacobian / T)
    run.note("{:,} rows of 16 scores N(0,1); means (Jacobian: medians of its norm).", len(scores))
    falls = max([0.0, *(float((low - high).max()) for low, high in pairwise(entropies))])
    cold, hot = run.rows[0], run.rows[-1]
    steepest = max(run.rows, key=lambda row: row["slope"])
    run.verdict("The entropy rises with the temperature, in every row.", falls < 1e-12, "largest fall {:.1g}", falls)
    measured = f"H/log n = {number(cold['entropy'])}, T = {cold['temperature']:g}"
    run.verdict("T to 0 gives entropy 0: one key.", cold["entropy"] < 0.01, measured)
    measured = f"1 - H/log n = {two_digits(1 - hot['entropy'])}, T = {hot['temperature']:g}"
    run.verdict("T to infinity gives log n: all keys alike.", 1 - hot["entropy"] < 1e-3, measured)
    flat = max(cold["slope"], hot["slope"]) < 0.1 * steepest["slope"]
    sentence = "The typical gradient to the scores vanishes at both ends."
    run.verdict(sentence, flat, "largest at T = {:g}", steepest["temperature"])
