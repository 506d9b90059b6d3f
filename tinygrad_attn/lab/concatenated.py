"""Four small matrices a head, three large ones, or one: the same numbers, ever fewer products."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..attention import scaled_dot_product_attention
from ..autodiff.blas import one_thread_blas
from ..autodiff.functions import concatenate
from ..autodiff.tensor import Tensor
from ..nn import MultiHeadAttention
from ..show.table import Column, number
from .counting import count
from .result import LabTable, Progress, Verdict, quiet
from .words import speaker

D_MODEL, HEADS, BATCH, TOKENS = 64, 4, 8, 32
D_K = D_MODEL // HEADS

Run = Callable[[Tensor], Tensor]


@one_thread_blas()
def concatenated_and_separate(
    seeds: int = 3, language: str = "en", on_step: Progress = quiet, *, repeats: int = 15
) -> LabTable:
    """Multi-head attention from the same weights in three forms: one head at a time (W_Q, W_K, W_V of 64 x 16 each),
    three matrices of 64 x 64, and one W_QKV of 64 x 192.

    Claim: equal outputs and gradients, and the fewer, larger products are faster.  Refuted by outputs or gradients that
    differ by more than rounding (1e-5 of their size in float32).  The products are counted; the clock is shown, the
    fastest of alternating runs of forward and backward (a busy machine only adds), and differs from machine to machine.
    """
    say = speaker(language)
    names = {
        "heads": say("a head at a time", "cabeza por cabeza"),
        "three": "W_Q, W_K, W_V",
        "one": say("one W_QKV", "una W_QKV"),
    }
    worst, products = 0.0, dict.fromkeys(names, 0)
    times: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(seeds):
        x = np.random.default_rng([seed, 10]).standard_normal((BATCH, TOKENS, D_MODEL)).astype(np.float32)
        seeded = np.random.default_rng([seed, 11]).standard_normal(x.shape).astype(np.float32)
        forms = _forms(seed)
        results = {}
        for name, (run, gradients) in forms.items():
            given = Tensor(x, requires_grad=True)
            out = run(given)
            products[name] = count(out).products
            out.backward(seeded)
            assert given.grad is not None
            results[name] = [out.numpy(), given.grad.numpy(), *gradients()]
        for name in ("three", "one"):
            for ours, theirs in zip(results[name], results["heads"]):
                worst = max(worst, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
        for _ in range(repeats):
            for name, (run, _) in forms.items():
                start = time.perf_counter()
                run(Tensor(x, requires_grad=True)).backward(seeded)
                times[name].append(time.perf_counter() - start)
        on_step(seed + 1, seeds)
    slowest = min(times["heads"])
    rows: list[dict[str, Any]] = [
        {
            "form": names[name],
            "products": products[name],
            "milliseconds": 1000 * min(times[name]),
            "speed": slowest / min(times[name]),
        }
        for name in names
    ]
    speeds = [row["speed"] for row in rows]
    verdicts = [
        Verdict(
            say(
                "The three forms are equal, outputs and gradients.",
                "Las tres formas son iguales, en salidas y gradientes.",
            ),
            say(f"largest relative difference {worst:.1g}", f"mayor diferencia relativa {worst:.1g}"),
            worst < 1e-5,
        ),
        Verdict(
            say("Fewer, larger products are faster.", "Menos productos, y más grandes, son más rápidos."),
            say("speed ", "velocidad ") + " / ".join(f"{speed:.2f}" for speed in speeds),
            min(speeds[1:]) > 1.0,
        ),
    ]
    return LabTable(
        say("Heads apart, and concatenated", "Cabezas por separado y concatenadas"),
        [
            Column("form", say("form", "forma"), left=True),
            Column("products", say("products", "productos")),
            Column("milliseconds", say("one step", "un paso"), lambda x: number(x, 3)),
            Column("speed", say("speed", "velocidad"), "{:.2f}".format),
        ],
        rows,
        [
            say(
                f"d_model {D_MODEL}, {HEADS} heads, batch {BATCH} x {TOKENS}; products of one forward pass; "
                f"the fastest of {seeds * repeats} alternating runs.",
                f"d_model {D_MODEL}, {HEADS} cabezas, lote {BATCH} x {TOKENS}; productos de un paso hacia delante; "
                f"la más rápida de {seeds * repeats} ejecuciones alternadas.",
            )
        ],
        units={"milliseconds": "ms"},
        verdicts=verdicts,
        say=say,
    )


def _forms(seed: int) -> dict[str, tuple[Run, Callable[[], list[np.ndarray]]]]:
    """Each form as a function x -> out, and one that gives dL/dW_Q, dL/dW_K, dL/dW_V as 64 x 64 arrays."""
    three = MultiHeadAttention(D_MODEL, HEADS, seed, attention="explicit", sigma=D_MODEL**-0.5)
    one = MultiHeadAttention(D_MODEL, HEADS, seed, packed=True, attention="explicit", sigma=D_MODEL**-0.5)
    cut = [slice(h * D_K, (h + 1) * D_K) for h in range(HEADS)]
    small = {
        name: [Tensor(getattr(three, name).numpy()[:, part], requires_grad=True) for part in cut]
        for name in ("W_Q", "W_K", "W_V")
    }

    def head_by_head(x: Tensor) -> Tensor:
        mixes = []
        for W_Q, W_K, W_V in zip(small["W_Q"], small["W_K"], small["W_V"]):  # (64, 16) each
            mixes.append(scaled_dot_product_attention(x @ W_Q, x @ W_K, x @ W_V)[0])
        return concatenate(mixes, axis=-1) @ three.W_O

    def of_small() -> list[np.ndarray]:
        return [np.concatenate([_gradient(W) for W in small[name]], axis=1) for name in ("W_Q", "W_K", "W_V")]

    return {
        "heads": (head_by_head, of_small),
        "three": (three, lambda: [_gradient(W) for W in (three.W_Q, three.W_K, three.W_V)]),
        "one": (one, lambda: np.split(_gradient(one.W_QKV), 3, axis=1)),
    }


def _gradient(W: Tensor) -> np.ndarray:
    assert W.grad is not None
    return W.grad.numpy()
