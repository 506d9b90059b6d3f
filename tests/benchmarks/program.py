"""What a program costs: a training step run as ever, recorded (`ta.program`), and its lines run (`program.run`).

    python tests/benchmarks/program.py [--quick]

Milliseconds, the best of several; the tape is checked once in each recording: its lines run, and what they give is
compared bit for bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.autodiff.blas import one_thread_blas

SIZES = {"tiny": (32, 8, 32, 2, 1), "seed": (65, 64, 64, 4, 4)}  # vocabulary, context, d_model, heads, layers
BATCH = 16


def best(run: Callable[[], object], times: int) -> float:
    """Milliseconds of the fastest of several runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found) * 1e3


def measure(name: str, times: int) -> str:
    model = ta.nn.MiniGPT(*SIZES[name])
    optimizer = ta.optim.AdamW(model.parameters(), 1e-3)
    tokens, targets = np.random.default_rng(0).integers(SIZES[name][0], size=(2, BATCH, SIZES[name][1]))

    def step(tokens: np.ndarray, targets: np.ndarray) -> ta.Tensor:
        optimizer.zero_grad()
        loss = ta.cross_entropy(model(tokens), targets)
        loss.backward()
        ta.optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        return loss

    program = ta.program(step, tokens, targets)
    eager = best(lambda: step(tokens, targets), 4 * times)
    recorded = best(lambda: ta.program(step, tokens, targets), times)
    ran = best(program.run, times)
    kept = sum(array.nbytes for array in program.data.values()) / 1e6
    return (
        f"{name}: {len(program.lines)} calls; a step {eager:.1f} ms, recorded {recorded:.1f} ms "
        f"({recorded / eager:.0f} times), its lines run {ran:.1f} ms; {kept:.1f} MB of data kept"
    )


if __name__ == "__main__":
    with one_thread_blas():
        for name in SIZES:
            print(measure(name, 1 if "--quick" in sys.argv else 5))
