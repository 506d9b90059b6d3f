"""What looking costs.

    python tests/benchmarks/probe.py [--json FILE] [--quick]

The seed configuration (d_model 64, 4 heads, 4 layers, T 64, B 16), one training step:

    watch explicit    all scores of all layers watched, against the explicit step unwatched     goal: under 2 times
    watch fused       the same with fused attention, against the explicit step unwatched        goal: under 2 times
    meters            a step with meters, against one without: a tenth of the difference is
                      what meters every 10 steps cost per step                                  goal: under 5 %
"""

from __future__ import annotations

import numpy as np
from compare import Report, alternate, arguments

import tinygrad_attn as ta


def stepper(attention: str):
    """(model, a function that trains it one step)"""
    model = ta.nn.MiniGPT(65, 64, d_model=64, n_heads=4, n_layers=4, seed=0, attention=attention)
    optimizer = ta.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = np.random.default_rng(0).integers(0, 65, (16, 65))

    def step() -> None:
        optimizer.zero_grad()
        ta.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]).backward()
        optimizer.step()

    return model, step


def watched(model, step):
    def run() -> None:
        with ta.probe.watch(model, "*.scores"):
            step()

    return run


def metered(model, step):
    recorder = ta.probe.Recorder(model, every=1, on_alarm=lambda alarm: None)

    def run() -> None:
        with recorder.at(0):
            step()

    return run


def main() -> None:
    options = arguments(__doc__)
    runs = {}
    for attention in ("explicit", "fused"):
        model, step = stepper(attention)
        runs[attention] = step
        runs[f"watch {attention}"] = watched(model, step)
        runs[f"meters {attention}"] = metered(model, step)
    seconds = alternate(runs, 2 if options.quick else 20)
    report = Report()
    for attention in ("explicit", "fused"):
        report.row(f"watch {attention}", seconds[f"watch {attention}"], seconds["explicit"], goal=0.5)
        each = seconds[attention] + (seconds[f"meters {attention}"] - seconds[attention]) / 10
        report.row(f"meters/10 {attention}", each, seconds[attention], goal=1 / 1.05)
    report.finish(options.json)


if __name__ == "__main__":
    main()
