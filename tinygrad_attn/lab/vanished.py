"""vanishing.py over several seeds, as a lab table with its verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from ..show.table import Column, number, percent
from .columns import yes_or_no
from .result import LabTable, Picture, Progress, Verdict, mean_and_spread, quiet
from .vanishing import vanishing
from .words import speaker


def vanishing_gradients(
    seeds: int = 4,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (16, 64, 256, 1024),
    rows: int = 4_000,
    draws: int = 40,
) -> LabTable:
    """The gradient that reaches a row of scores, with and without 1/sqrt(d_k), beside that of W_Q.

    Claim: unscaled, the median row of dL/dS falls towards 0 as d_k grows and more and more rows are dead; scaled, it
    stays.  Refuted by medians that do not fall, or scaled rows that die.  A second sentence is often said with it, that
    the *parameters'* gradients vanish: refuted where |dL/dW_Q| unscaled is larger than scaled (a ratio above 1).
    """
    say = speaker(language)
    runs = []
    for seed in range(seeds):

        def step(done: int, total: int, before: int = seed) -> None:
            on_step(before * total + done, seeds * total)

        runs.append([sample.row() for sample in vanishing(widths, rows, draws, seed, step)])
    table = []
    for same in zip(*runs):
        norm, spread = mean_and_spread([row["score_gradient_row_norm"] for row in same])
        ratios = [row["W_Q_gradient_ratio"] for row in same]
        table.append(
            {
                "d_k": same[0]["d_k"],
                "scaled": same[0]["scaled"],
                "score_std": mean_and_spread([row["score_std"] for row in same])[0],
                "row_norm": norm,
                "row_norm_spread": spread,
                "dead": mean_and_spread([row["dead_rows"] for row in same])[0],
                "W_Q_ratio": None if ratios[0] is None else mean_and_spread(ratios)[0],
            }
        )
    alive = [row for row in table if row["scaled"]]
    gone = [row for row in table if not row["scaled"]]
    norms, ratios = [row["row_norm"] for row in gone], [row["W_Q_ratio"] for row in gone]
    verdicts = [
        Verdict(
            say(
                "Without 1/sqrt(d_k) the gradient of the scores vanishes.",
                "Sin 1/sqrt(d_k) se desvanece el gradiente de las puntuaciones.",
            ),
            say("median row of dL/dS ", "fila mediana de dL/dS ") + " / ".join(number(x, 2) for x in norms),
            all(a > b for a, b in zip(norms, norms[1:])),
        ),
        Verdict(
            say("With it, no row dies at any d_k.", "Con él no muere ninguna fila, sea cual sea d_k."),
            " / ".join(percent(row["dead"]) for row in alive),
            all(row["dead"] < 1e-3 for row in alive),
        ),
        Verdict(
            say("Without it the gradient of W_Q vanishes too.", "Sin él se desvanece también el gradiente de W_Q."),
            " / ".join(number(x, 2) for x in ratios) + say(" times the scaled one", " veces el escalado"),
            all(ratio < 1 for ratio in ratios),
        ),
    ]
    return LabTable(
        say(
            "Vanishing gradients: S is what softmax receives",
            "Gradientes que se desvanecen: S es lo que recibe softmax",
        ),
        [
            Column("d_k", "d_k"),
            yes_or_no("scaled", say("scaled", "escalado"), say),
            Column("score_std", say("std\nof S", "desv.\nde S"), "{:.1f}".format),
            Column("row_norm", say("median row\nof dL/dS", "fila mediana\nde dL/dS"), lambda x: number(x, 2)),
            Column("dead", say("rows\n< 1e-3", "filas\n< 1e-3"), percent),
            Column("W_Q_ratio", say("dL/dW_Q\nratio", "razón de\ndL/dW_Q"), lambda x: number(x, 2)),
        ],
        table,
        [
            say(
                "The few live rows lack the factor 1/sqrt(d_k): the gradients of the parameters tell the opposite story.",
                "A las pocas filas vivas les falta el factor 1/sqrt(d_k): los gradientes de los parámetros dicen lo contrario.",
            )
        ],
        verdicts=verdicts,
        picture=Picture("d_k", "row_norm", by=("scaled",), spread="row_norm_spread", log_x=True, log_y=True),
        say=say,
    )
