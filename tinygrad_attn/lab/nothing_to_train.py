"""Attention without any weights: sim(x_i, x_j) x_j, against the learned one."""

from __future__ import annotations

from typing import Any

from ..show.table import Column, percent
from .columns import accuracy_and_spread
from .result import LabTable, Progress, Verdict, clearly_above, mean_and_spread, quiet
from .successor import Finder, Successor, train
from .words import speaker


def parameter_free_and_learned(
    seeds: int = 4, language: str = "en", on_step: Progress = quiet, *, steps: int = 100
) -> LabTable:
    """The successor task with x itself as q, k and v, against learned W_Q, W_K, W_V; the read-out is trained in both.

    Claim: parameter-free attention has nothing to train and can only look at what is similar; a learned one can look
    at what is *related*.  Refuted where the learned attention is not clearly ahead, or the other has parameters.
    """
    say = speaker(language)
    kinds = {"none": "x x^T x", "scaled": say("learned", "aprendida")}
    rows: list[dict[str, Any]] = []
    finals: dict[str, list[float]] = {}
    for i, (scorer, name) in enumerate(kinds.items()):
        finals[scorer] = []
        weights = 0
        for seed in range(seeds):
            finder = Finder(seed, scorer=scorer)
            weights = sum(p.size for path, p in finder.named_parameters() if path != "W_O")
            finals[scorer].append(train(finder, Successor(seed), seed, steps)[-1].accuracy)
        accuracy, spread = mean_and_spread(finals[scorer])
        rows.append({"attention": name, "weights": weights, "accuracy": accuracy, "spread": spread})
        on_step(i + 1, len(kinds))
    verdicts = [
        Verdict(
            say("sim(x_i, x_j) x_j has no parameters.", "sim(x_i, x_j) x_j no tiene parámetros."),
            f"{rows[0]['weights']} / {rows[1]['weights']}",
            rows[0]["weights"] == 0,
        ),
        Verdict(
            say(
                "It cannot learn who follows whom; the learned one can.",
                "No puede aprender quién sigue a quién; la aprendida sí.",
            ),
            f"{percent(rows[0]['accuracy'])} / {percent(rows[1]['accuracy'])}",
            clearly_above(finals["scaled"], finals["none"]),
        ),
    ]
    return LabTable(
        say("Attention without weights, and learned", "Atención sin pesos, y aprendida"),
        [
            Column("attention", say("attention", "atención"), left=True),
            Column("weights", say("weights", "pesos")),
            *accuracy_and_spread(say),
        ],
        rows,
        [
            say(
                f"seeds: {seeds}; {steps} steps; guessing is right in 12.5%, the commonest label of the sequence in about 25%.",
                f"semillas: {seeds}; {steps} pasos; al azar se acierta el 12.5%, con la etiqueta más común un 25%.",
            )
        ],
        verdicts=verdicts,
        say=say,
    )
