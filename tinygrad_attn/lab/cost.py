"""What attention costs as the sequence grows: operations, bytes, and a clock to look at."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..attention import fused_attention, scaled_dot_product_attention
from ..autodiff.blas import one_thread_blas
from ..autodiff.tensor import Tensor
from ..show.table import Column, number
from .counting import Count, count, fitted_exponent
from .result import LabTable, Picture, Progress, Verdict, quiet
from .words import speaker

FORMS: dict[str, Callable[..., Any]] = {
    "explicit": lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
    "fused": fused_attention,
}
SPANISH = {"explicit": "explícita", "fused": "fusionada"}


def cost_of_length(
    seeds: int = 3,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    lengths: Sequence[int] = (128, 256, 512, 1024, 2048, 4096),
    d: int = 64,
) -> LabTable:
    """Self-attention of one head at doubling n, explicit and fused: counted operations, bytes kept for backward, seconds.

    Claim: the work is O(n^2 d).  Refuted by a fitted exponent of the operations off 2 in n, or off 1 in d, by more than
    0.05.  That memory grows as n^2 too is true of the explicit form only: long fused attention keeps no (n, n) array.
    The exponents come from counts (counting.py), so they are the same on every machine; the clock is only shown.
    """
    say = speaker(language)
    rows: list[dict[str, Any]] = []
    total = len(lengths) * len(FORMS) - 1
    for form, attention in FORMS.items():
        for n in lengths[:-1] if form == "explicit" else lengths:
            counted, seconds = _measure(attention, n, d, seeds)
            row = {"form": form, "n": n, "operations": counted.operations if form == "explicit" else None}
            rows.append(row | {"bytes": counted.bytes, "milliseconds": 1000 * seconds})
            on_step(len(rows), total)
    explicit, fused = ([row for row in rows if row["form"] == form] for form in FORMS)
    in_n = fitted_exponent(lengths[:-1], [row["operations"] for row in explicit])
    widths = (64, 128, 256)
    in_d = fitted_exponent(widths, [count(FORMS["explicit"](*_inputs(64, width, 0))).operations for width in widths])
    memory, low, clock = (
        fitted_exponent([row["n"] for row in last], [row[key] for row in last])
        for last, key in ((explicit[-2:], "bytes"), (fused[-2:], "bytes"), (explicit[-2:], "milliseconds"))
    )
    verdicts = [
        Verdict(
            say("The work grows as n^2 d.", "El trabajo crece como n^2 d."),
            say(
                f"exponents {in_n:.2f} in n, {in_d:.2f} in d (clock: {clock:.1f} in n)",
                f"exponentes {in_n:.2f} en n, {in_d:.2f} en d (reloj: {clock:.1f} en n)",
            ),
            abs(in_n - 2) < 0.05 and abs(in_d - 1) < 0.05,
        ),
    ]
    if max(lengths) >= 4096:  # where the fused form keeps no weights any more
        verdicts.append(
            Verdict(
                say("Memory must grow as n^2.", "La memoria ha de crecer como n^2."),
                say(
                    f"exponent at the longest {memory:.2f} explicit, {low:.2f} fused",
                    f"exponente de las más largas {memory:.2f} explícita, {low:.2f} fusionada",
                ),
                low > 1.5,
            )
        )
    return LabTable(
        say(f"Cost against length (d = {d})", f"Coste según la longitud (d = {d})"),
        [
            Column("form", say("form", "forma"), lambda name: say(name, SPANISH[name]), left=True),
            Column("n", "n"),
            Column("operations", say("operations", "operaciones"), lambda x: "-" if x is None else number(x / 1e6)),
            Column("bytes", say("kept", "guardado"), lambda x: number(x / 1e3)),
            Column("milliseconds", say("one step", "un paso"), number),
        ],
        rows,
        [
            say(
                "Operations of the forward pass; the fused form does the same ones, in blocks, and keeps weights up to 8 MB.",
                "Operaciones hacia delante; la forma fusionada hace las mismas, por bloques, y guarda pesos hasta 8 MB.",
            )
        ],
        units={"operations": "10^6", "bytes": "kB", "milliseconds": "ms"},
        verdicts=verdicts,
        picture=Picture("n", "bytes", by=("form",), log_x=True, log_y=True, unit="bytes"),
        say=say,
    )


def _inputs(n: int, d: int, seed: int) -> list[Tensor]:
    rng = np.random.default_rng([seed, n, d])
    return [Tensor(rng.standard_normal((n, d)), requires_grad=True, dtype=np.float32) for _ in range(3)]


@one_thread_blas()
def _measure(attention: Callable[..., Any], n: int, d: int, seeds: int) -> tuple[Count, float]:
    """The counts of one forward pass, and the median seconds of forward and backward."""
    times = []
    for seed in range(seeds if n <= 1024 else 1):
        q, k, v = _inputs(n, d, seed)
        start = time.perf_counter()
        attention(q, k, v).backward(np.ones((n, d), np.float32))
        times.append(time.perf_counter() - start)
    return count(attention(*_inputs(n, d, 0))), float(np.median(times))
