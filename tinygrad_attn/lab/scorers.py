"""Three ways to score a query and a key: additive, dot product, scaled dot product."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ..autodiff.blas import one_thread_blas
from ..autodiff.functions import cross_entropy
from ..autodiff.tensor import Tensor
from ..show.table import Column, number, percent
from .columns import accuracy_and_spread
from .counting import count
from .result import LabTable, Picture, Progress, Verdict, clearly_above, mean_and_spread, quiet
from .successor import BATCH, HIDDEN, SYMBOLS, Finder, Successor, train
from .words import speaker

SCORERS = ("additive", "dot", "scaled")
SPANISH = {"additive": "aditiva", "dot": "producto", "scaled": "producto escalado"}


def additive_dot_and_scaled(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    widths: Sequence[int] = (16, 64, 256),
    steps: int = 80,
    rates: Sequence[float] = (1.0, 2.0, 3.0),
) -> LabTable:
    """The successor task with each scorer at each d_k: accuracy, counted operations and bytes, and the clock.

    additive: w . tanh(q W_q + k W_k), 32 hidden units; dot: q . k; scaled: q . k / sqrt(d_k).  Each takes the better of
    the learning rates.  Operations: of one forward pass; bytes: what it keeps for backward (counting.py).

    Claim: at small d_k the three are similar; at large d_k additive is ahead of the *unscaled* dot product, and costs
    more time and memory; the scaling removes its advantage.  Refuted, at the largest d_k, by an additive accuracy not
    clearly above that of the dot product, or one clearly above the scaled one; by smaller counts.
    """
    say = speaker(language)
    jobs = [(d_k, scorer) for d_k in widths for scorer in SCORERS]
    rows, finals = [], {}
    for i, (d_k, scorer) in enumerate(jobs):
        tried = {rate: [_final(seed, d_k, scorer, steps, rate) for seed in range(seeds)] for rate in rates}
        rate = max(tried, key=lambda rate: float(np.mean(tried[rate])))
        finals[d_k, scorer] = tried[rate]
        accuracy, spread = mean_and_spread(tried[rate])
        operations, kept, seconds = _cost(d_k, scorer)
        row = {"d_k": d_k, "scorer": scorer, "accuracy": accuracy, "spread": spread, "rate": rate}
        rows.append(row | {"operations": operations, "bytes": kept, "milliseconds": 1000 * seconds})
        on_step(i + 1, len(jobs))
    small, large = min(widths), max(widths)
    table = LabTable(
        say("Additive, dot product, scaled dot product", "Aditiva, producto escalar, producto escalado"),
        [
            Column("d_k", "d_k"),
            Column("scorer", say("score", "puntuación"), lambda name: say(name, SPANISH[name]), left=True),
            *accuracy_and_spread(say),
            Column("rate", say("learning\nrate", "tasa de\naprendizaje"), "{:g}".format),
            Column("operations", say("operations", "operaciones"), lambda x: f"{x / 1e6:.2f}"),
            Column("bytes", say("kept", "guardado"), lambda x: f"{x / 1e3:,.0f}"),
            Column("milliseconds", say("one step", "un paso"), lambda x: number(x, 2)),
        ],
        rows,
        [
            say(
                f"seeds: {seeds}; {steps} steps. Counts and clock: one batch of {BATCH} x {SYMBOLS} tokens; "
                f"additive: {HIDDEN} hidden units.",
                f"semillas: {seeds}; {steps} pasos. Recuentos y reloj: un lote de {BATCH} x {SYMBOLS} elementos; "
                f"aditiva: {HIDDEN} unidades ocultas.",
            )
        ],
        units={"operations": "10^6", "bytes": "kB", "milliseconds": "ms"},
        picture=Picture("d_k", "accuracy", by=("scorer",), spread="spread", log_x=True),
        say=say,
    )
    table.verdicts = _verdicts(table, finals, small, large)
    return table


def _final(seed: int, d_k: int, scorer: str, steps: int, rate: float) -> float:
    return train(Finder(seed, d_k, scorer=scorer), Successor(seed), seed, steps, rate)[-1].accuracy


@one_thread_blas()
def _cost(d_k: int, scorer: str) -> tuple[int, int, float]:
    """Operations and bytes of one forward pass, and the median seconds of forward and backward."""
    finder = Finder(0, d_k, scorer=scorer)
    x, right = Successor(0).batch(np.random.default_rng(0), BATCH)
    counted = count(finder(Tensor(x)))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        cross_entropy(finder(Tensor(x)), right).backward()
        times.append(time.perf_counter() - start)
    return counted.operations, counted.bytes, float(np.median(times))


def _verdicts(table: LabTable, finals: dict[tuple[int, str], list[float]], small: int, large: int) -> list[Verdict]:
    say = table.say
    at = {key: float(np.mean(values)) for key, values in finals.items()}
    text = {d_k: " / ".join(percent(at[d_k, scorer]) for scorer in SCORERS) for d_k in (small, large)}
    order = say("additive / dot / scaled", "aditiva / producto / escalado")
    operations, kept = (
        table.column(key, d_k=large, scorer="additive")[0] / table.column(key, d_k=large, scorer="dot")[0]
        for key in ("operations", "bytes")
    )
    least = min(at[small, scorer] for scorer in SCORERS)
    return [
        Verdict(
            say(f"At d_k = {small} the three are similar.", f"Con d_k = {small} las tres se parecen."),
            f"{text[small]} ({order})",
            max(at[small, scorer] for scorer in SCORERS) - least < 0.15,
        ),
        Verdict(
            say(
                f"At d_k = {large} additive is ahead of the unscaled dot product.",
                f"Con d_k = {large} la aditiva aventaja al producto sin escalar.",
            ),
            f"{text[large]} ({order})",
            clearly_above(finals[large, "additive"], finals[large, "dot"]),
        ),
        Verdict(
            say("The scaling takes that advantage away.", "El escalado anula esa ventaja."),
            f"{percent(at[large, 'scaled'])} / {percent(at[large, 'additive'])}",
            at[large, "scaled"] > at[large, "dot"]
            and not clearly_above(finals[large, "additive"], finals[large, "scaled"]),
        ),
        Verdict(
            say("Additive is slower and hungrier.", "La aditiva es más lenta y consume más memoria."),
            say(
                f"{operations:.1f} times the operations, {kept:.1f} times the bytes at d_k = {large}",
                f"{operations:.1f} veces las operaciones, {kept:.1f} veces los bytes con d_k = {large}",
            ),
            operations > 1 and kept > 1,
        ),
    ]
