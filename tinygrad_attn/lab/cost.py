"""What attention costs as the sequence grows: operations, bytes, and a clock to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..attention import fused_attention, scaled_dot_product_attention
from ..autodiff.blas import one_thread_blas
from ..autodiff.tensor import Tensor
from .counting import count, fitted_exponent, milliseconds
from .experiment import Run, experiment
from .result import Column, Picture, number

FORMS: dict[str, Callable[..., Any]] = {
    "explicit": lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
    "fused": fused_attention,
}


@experiment(
    "How does the cost grow with the length?",
    seeds=3,
    title="Cost against length (d = {d})",
    columns=[
        Column("form", "form", left=True),
        Column("n", "n"),
        Column("operations", "operations", lambda x: "-" if x is None else number(x / 1e6)),
        Column("bytes", "kept", lambda x: number(x / 1e3)),
        Column("milliseconds", "one step", number),
    ],
    units={"operations": "10^6", "bytes": "kB", "milliseconds": "ms"},
    picture=Picture("n", "bytes", by=("form",), log_x=True, log_y=True, unit="bytes"),
)
def cost_of_length(run: Run, *, lengths: Sequence[int] = (128, 256, 512, 1024, 2048, 4096), d: int = 64) -> None:
    """Self-attention of one head at doubling n, explicit and fused: operations, bytes kept for backward, seconds.

    Claim: the work is O(n^2 d).  Refuted by a fitted exponent of the operations off 2 in n, or off 1 in d, by more than
    0.05.  That memory grows as n^2 too is true of the explicit form only: long fused attention keeps no (n, n) array.
    The exponents come from counts (counting.py), so they are the same on every machine; the clock is only shown.
    """
    for form, n in run.each([("explicit", n) for n in lengths[:-1]] + [("fused", n) for n in lengths]):
        counted = count(FORMS[form](*_inputs(n, d, 0)))
        operations = counted.operations if form == "explicit" else None
        times = [_milliseconds(FORMS[form], n, d, seed) for seed in range(run.seeds if n <= 1024 else 1)]
        run.row(form=form, n=n, operations=operations, bytes=counted.bytes, milliseconds=float(np.median(times)))
    run.note(
        "Operations of the forward pass; the fused form does the same ones, in blocks, and keeps weights up to 8 MB."
    )
    widths = (64, 128, 256)
    in_n = fitted_exponent(lengths[:-1], run.column("operations", form="explicit"))
    in_d = fitted_exponent(widths, [count(FORMS["explicit"](*_inputs(64, width, 0))).operations for width in widths])
    memory, low, clock = (
        fitted_exponent(run.column("n", form=form)[-2:], run.column(key, form=form)[-2:])
        for form, key in (("explicit", "bytes"), ("fused", "bytes"), ("explicit", "milliseconds"))
    )
    run.verdict(
        "The work grows as n^2 d.",
        abs(in_n - 2) < 0.05 and abs(in_d - 1) < 0.05,
        "exponents {:.2f} in n, {:.2f} in d (clock: {:.1f} in n)",
        *(in_n, in_d, clock),
    )
    if max(lengths) >= 4096:  # where the fused form keeps no weights any more
        measured = "exponent at the longest {:.2f} explicit, {:.2f} fused"
        run.verdict("Memory must grow as n^2.", low > 1.5, measured, memory, low)


def _inputs(n: int, d: int, seed: int) -> list[Tensor]:
    rng = np.random.default_rng([seed, n, d])
    return [Tensor(rng.standard_normal((n, d)), requires_grad=True, dtype=np.float32) for _ in range(3)]


@one_thread_blas()
def _milliseconds(attention: Callable[..., Any], n: int, d: int, seed: int) -> float:
    """The clock of one forward and backward pass."""
    inputs, ones = _inputs(n, d, seed), np.ones((n, d), np.float32)
    return milliseconds(lambda: attention(*inputs).backward(ones))
