"""Why three matrices?  One task, trained with W_Q, W_K, W_V independent and with some of them the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..show.table import Column, percent
from .columns import accuracy_and_spread
from .result import LabTable, Picture, Progress, Verdict, clearly_above, mean_and_spread, quiet
from .successor import Finder, Successor, train
from .words import speaker

TIES: dict[str, str | None] = {"independent": None, "K = V": "kv", "Q = K": "qk", "Q = K = V": "qkv"}
SPANISH = {"independent": "independientes"}


def tied_and_independent(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (8, 16),
    steps: int = 200,
    every: int = 50,
) -> LabTable:
    """The successor task with three matrices, two, or one, at two head widths.

    Who follows whom has a direction, and with W_Q = W_K the scores of a pair are the same both ways.  What finds a token
    (its symbol) is not what is wanted of it (its label), and with W_K = W_V one vector must be both.

    Claim: each tie costs accuracy.  Refuted, tie by tie, where the independent matrices are not clearly ahead at the
    end (twice the standard error over the seeds).  Ties save weights; the table counts them.
    """
    say = speaker(language)
    jobs = [(d_k, name) for d_k in widths for name in TIES]
    rows, finals = [], {}
    for i, (d_k, name) in enumerate(jobs):
        runs, weights = [], 0
        for seed in range(seeds):
            finder = Finder(seed, d_k, d_k, tie=TIES[name])
            weights = sum(p.size for p in finder.parameters()) - finder.W_O.size
            runs.append(train(finder, Successor(seed), seed, steps, every=every))
        finals[d_k, name] = [run[-1].accuracy for run in runs]
        for same in zip(*runs):
            accuracy, spread = mean_and_spread([look.accuracy for look in same])
            row = {"d_k": d_k, "matrices": name, "weights": weights, "step": same[0].step}
            rows.append(row | {"accuracy": accuracy, "spread": spread})
        on_step(i + 1, len(jobs))
    verdicts = []
    for name, lesson in {
        "Q = K": say(
            "Scores that cannot tell directions apart cost accuracy (Q = K).",
            "Unas puntuaciones que no distinguen direcciones cuestan aciertos (Q = K).",
        ),
        "K = V": say(
            "One vector for being found and for being read costs accuracy (K = V).",
            "Un solo vector para ser hallado y para ser leído cuesta aciertos (K = V).",
        ),
        "Q = K = V": say(
            "One matrix for all three costs accuracy (Q = K = V).",
            "Una sola matriz para las tres cuesta aciertos (Q = K = V).",
        ),
    }.items():
        for d_k in widths:
            one, two = np.mean(finals[d_k, "independent"]), np.mean(finals[d_k, name])
            verdicts.append(
                Verdict(
                    lesson,
                    say(
                        f"d_k = {d_k}: {percent(float(one))} independent, {percent(float(two))} tied",
                        f"d_k = {d_k}: {percent(float(one))} independientes, {percent(float(two))} ligadas",
                    ),
                    clearly_above(finals[d_k, "independent"], finals[d_k, name]),
                )
            )
    return LabTable(
        say("Three matrices, two, or one", "Tres matrices, dos o una"),
        [
            Column("d_k", "d_k = d_v"),
            Column("matrices", "matrices", lambda name: say(name, SPANISH.get(name, name)), left=True),
            Column("weights", say("weights", "pesos")),
            Column("step", say("step", "paso")),
            *accuracy_and_spread(say),
        ],
        rows,
        [say(f"seeds: {seeds}; guessing is right in 12.5%.", f"semillas: {seeds}; al azar se acierta el 12.5%.")],
        verdicts=verdicts,
        picture=Picture("step", "accuracy", by=("matrices",), spread="spread", panel="d_k"),
        main=lambda row: row["step"] in (steps // 2, steps),
        say=say,
    )
