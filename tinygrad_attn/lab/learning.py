"""Does the model stop learning where to look, without 1/sqrt(d_k)?  A pair of trainings at each d_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..show.table import Column, percent
from .columns import accuracy_and_spread
from .result import LabTable, Picture, Progress, Verdict, clearly_above, mean_and_spread, quiet
from .successor import LABELS, UNIT, Finder, Look, Successor, train
from .words import speaker

VARIANTS = ("scaled", "unscaled", "unscaled, sigma 0.02")
SPANISH = {"scaled": "escalado", "unscaled": "sin escalar", "unscaled, sigma 0.02": "sin escalar, sigma 0.02"}


def learning_with_and_without_scaling(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (16, 64, 256, 1024),
    steps: int = 80,
    every: int = 20,
    rates: Sequence[float] = (3.0, 10.0),
) -> LabTable:
    """The successor task (successor.py) with and without the scaling, at each d_k: curves of accuracy and of stuck queries.

    A query is stuck when its answer is wrong and its row of dL/dS is below 1e-3 of a row's own loss.  Plain SGD; each
    variant takes the better of the learning rates, so that neither is handicapped; q and k start with unit variance.
    A third variant starts from sigma 0.02, as transformers do: tiny scores, where nothing is saturated.

    Claim: unscaled, the share of stuck queries grows with d_k and the model falls behind.  Refuted when, at the largest
    d_k, the scaled accuracy is not clearly above (twice the standard error over the seeds).  The strong sentence,
    "it stops learning", is refuted when the unscaled accuracy still reaches twice the level of guessing.
    """
    say = speaker(language)
    jobs = [(d_k, variant) for d_k in widths for variant in VARIANTS[: 3 if d_k == max(widths) else 2]]
    rows, last = [], {}
    for i, (d_k, variant) in enumerate(jobs):
        rate, looks = _best(seeds, d_k, variant, steps, every, rates)
        for same in zip(*looks):
            accuracy, spread = mean_and_spread([look.accuracy for look in same])
            stuck = float(np.mean([look.stuck for look in same]))
            row = {"d_k": d_k, "variant": variant, "rate": rate, "step": same[0].step}
            rows.append(row | {"accuracy": accuracy, "spread": spread, "stuck": stuck})
        last[d_k, variant] = [run[-1].accuracy for run in looks]
        on_step(i + 1, len(jobs))
    table = LabTable(
        say("Learning with and without 1/sqrt(d_k)", "Aprender con y sin 1/sqrt(d_k)"),
        [
            Column("d_k", "d_k"),
            Column("variant", say("variant", "variante"), lambda name: say(name, SPANISH[name]), left=True),
            Column("rate", say("learning\nrate", "tasa de\naprendizaje"), "{:g}".format),
            Column("step", say("step", "paso")),
            *accuracy_and_spread(say),
            Column("stuck", say("stuck\nqueries", "consultas\natascadas"), percent),
        ],
        rows,
        [
            say(
                f"seeds: {seeds}; mean and standard deviation; guessing is right in 12.5%. Stuck: wrong, and no gradient.",
                f"semillas: {seeds}; media y desviación típica; al azar se acierta el 12.5%. Atascada: errada y sin gradiente.",
            )
        ],
        picture=Picture("step", "accuracy", by=("variant",), spread="spread", panel="d_k"),
        main=lambda row: row["step"] in (0, steps // 2 // every * every, steps),
        say=say,
    )
    table.verdicts = _verdicts(table, last, max(widths), widths, steps)
    return table


def _best(
    seeds: int, d_k: int, variant: str, steps: int, every: int, rates: Sequence[float]
) -> tuple[float, list[list[Look]]]:
    """The learning rate with the highest final accuracy, and its runs, one per seed."""
    sigma = 0.02 if variant.endswith("0.02") else UNIT
    scorer = "scaled" if variant == "scaled" else "dot"
    tried = {}
    for rate in rates:
        runs = []
        for seed in range(seeds):
            finder = Finder(seed, d_k, scorer=scorer, sigma=sigma)
            runs.append(train(finder, Successor(seed), seed, steps, rate, every))
        tried[rate] = runs
    best = max(tried, key=lambda rate: float(np.mean([run[-1].accuracy for run in tried[rate]])))
    return best, tried[best]


def _verdicts(
    table: LabTable, last: dict[tuple[int, str], list[float]], widest: int, widths: Sequence[int], steps: int
) -> list[Verdict]:
    say = table.say
    final = {key: float(np.mean(values)) for key, values in last.items()}
    start = [table.column("stuck", d_k=d_k, variant="unscaled", step=0)[0] for d_k in widths]
    small = table.column("stuck", d_k=widest, variant="unscaled, sigma 0.02", step=0)[0]
    stopped = final[widest, "unscaled"] < 2 / LABELS
    why = say(
        ": slower, not stopped, because the live rows share W_Q and W_K with the stuck ones",
        ": más lento, no parado, pues las filas vivas comparten W_Q y W_K con las atascadas",
    )
    behind = f"{percent(final[widest, 'scaled'])} / {percent(final[widest, 'unscaled'])}"
    return [
        Verdict(
            say(
                "Without the scaling, more queries are stuck the larger d_k is.",
                "Sin el escalado hay más consultas atascadas cuanto mayor es d_k.",
            ),
            " / ".join(percent(x) for x in start) + say(" at the start", " al comienzo"),
            all(a <= b for a, b in zip(start, start[1:])) and start[-1] > 0.2,
        ),
        Verdict(
            say(
                f"At d_k = {widest} the scaled model learns better.",
                f"Con d_k = {widest} el modelo escalado aprende mejor.",
            ),
            say(
                f"{behind} after {steps} steps, scaled / unscaled",
                f"{behind} tras {steps} pasos, escalado / sin escalar",
            ),
            clearly_above(last[widest, "scaled"], last[widest, "unscaled"]),
        ),
        Verdict(
            say(
                "Without the scaling the model stops learning where to look.",
                "Sin el escalado el modelo deja de aprender adónde mirar.",
            ),
            say(
                f"at d_k = {widest} it reaches {percent(final[widest, 'unscaled'])}",
                f"con d_k = {widest} llega al {percent(final[widest, 'unscaled'])}",
            )
            + ("" if stopped else why),
            stopped,
        ),
        Verdict(
            say("Starting from sigma 0.02 hides the saturation.", "Comenzar con sigma 0.02 oculta la saturación."),
            say(
                f"{percent(small)} stuck at the start at d_k = {widest} instead of {percent(start[-1])}",
                f"{percent(small)} atascadas al comienzo con d_k = {widest} en lugar de {percent(start[-1])}",
            ),
            small < 0.01 < start[-1],
        ),
    ]
