"""d_v is free: keys decide where to look, values what is carried away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..show.table import Column, percent
from .columns import accuracy_and_spread
from .result import LabTable, Picture, Progress, Verdict, clearly_above, mean_and_spread, quiet
from .successor import LABELS, Finder, Successor, train, weights_of
from .words import speaker

D_K = 16


def width_of_values(
    seeds: int = 4,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (1, 2, 4, 16, 64),
    steps: int = 100,
) -> LabTable:
    """The successor task at d_k = 16 with values narrower and wider than the keys.

    Claim: d_v may differ from d_k.  The weights do not depend on it (same q and k, same weights, bit for bit); the
    output is as wide as v; what v is too narrow for is lost.  Refuted by weights that change with d_v, or by a d_v of 1
    that learns eight labels as well as a d_v of 16.
    """
    say = speaker(language)
    x, _ = Successor(0).batch(np.random.default_rng(0), 2)
    same = [weights_of(Finder(0, D_K, d_v), x) for d_v in widths]
    rows: list[dict[str, Any]] = []
    finals: dict[int, list[float]] = {}
    for i, d_v in enumerate(widths):
        finals[d_v] = []
        matrix: tuple[int, ...] = ()
        for seed in range(seeds):
            finder = Finder(seed, D_K, d_v)
            matrix = finder.W_V.shape
            finals[d_v].append(train(finder, Successor(seed), seed, steps)[-1].accuracy)
        accuracy, spread = mean_and_spread(finals[d_v])
        shape = "x".join(map(str, matrix))
        difference = float(np.abs(same[i] - same[0]).max())
        rows.append({"d_v": d_v, "W_V": shape, "difference": difference, "accuracy": accuracy, "spread": spread})
        on_step(i + 1, len(widths))
    worst = max(row["difference"] for row in rows)
    narrow, wide = min(widths), max(widths)
    verdicts = [
        Verdict(
            say(
                "d_v may differ from d_k; the weights do not notice.",
                "d_v puede diferir de d_k; los pesos no lo notan.",
            ),
            say(f"weights differ by {worst:g}", f"los pesos difieren en {worst:g}"),
            worst == 0.0,
        ),
        Verdict(
            say(
                f"A d_v too narrow for {LABELS} labels loses what attention found.",
                f"Un d_v demasiado estrecho para {LABELS} etiquetas pierde lo que la atención halló.",
            ),
            " / ".join(f"{percent(row['accuracy'])} (d_v {row['d_v']})" for row in rows),
            clearly_above(finals[wide], finals[narrow]),
        ),
    ]
    return LabTable(
        say(
            f"Values of another width than keys (d_k = {D_K})", f"Valores de otra anchura que las claves (d_k = {D_K})"
        ),
        [
            Column("d_v", "d_v"),
            Column("W_V", "W_V"),
            Column("difference", say("change of\nweights", "cambio de\npesos"), "{:g}".format),
            *accuracy_and_spread(say),
        ],
        rows,
        [say(f"seeds: {seeds}; {steps} steps.", f"semillas: {seeds}; {steps} pasos.")],
        verdicts=verdicts,
        picture=Picture("d_v", "accuracy", spread="spread", log_x=True),
        say=say,
    )
