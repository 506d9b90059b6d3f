"""``tinygrad-attn demo``: an attention block learns; its steps, its gradients, and what 1/sqrt(d_k) is for."""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from .. import __version__
from ..lab.reading import SENTENCE, Reading, reading, row7_table, trace_table
from ..lab.vanishing import EXPLANATION, Sample, vanishing
from ..lab.vanishing import table as vanishing_table
from ..show.numbers import percent
from ..show.table import Table
from ..tasks.reader import STEPS
from .output import can_draw, console, folder, learning, progress
from .shared_arguments import at_least, flag, switch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--seed", "seed of task, weights and draws", at_least(0), default=0)
    flag(parser, "--out", "where to write", Path, "DIR", Path("runs/demo"))
    switch(parser, "--quiet", "write the files and print nothing")


def run(arguments: argparse.Namespace) -> int:
    started = time.perf_counter()
    screen, out = console(arguments.quiet), folder(arguments.out)

    found = _learn(screen, arguments.seed)
    samples = _vanish(screen, arguments.seed)

    tables = {"row7": row7_table(found), "trace": trace_table(found), "vanishing": vanishing_table(samples)}
    written = ["summary.json", *(f"{name}.csv" for name in tables)]
    summary = _summary(arguments.seed, found, tables["vanishing"])
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv")
    screen.print(f"\nWritten to {out}", style="bold")
    screen.print(" ".join(written + _pictures(screen, out, found, samples)))
    screen.print(f"Seed {arguments.seed}; {time.perf_counter() - started:.0f} s.", style="dim")
    return 0


def _learn(screen: Console, seed: int) -> Reading:
    screen.print("1. A causal attention block learns agreement\n", style="bold")
    screen.print(f"{SENTENCE}   bare or -s?")
    screen.print("Only the pronoun at position 6 decides; those at 0 and 3 are bait.\n")
    with learning(screen) as on_step:
        found = reading(seed, on_step=on_step)
    count, heads = sum(p.size for p in found.reader.parameters()), len(found.weights)
    screen.print(f"{count:,} parameters, {heads} heads and an MLP, {STEPS} steps of Adam.", style="dim")
    screen.print(f"accuracy            {percent(found.exam.accuracy)} of {found.held_out:,} held-out sentences")
    screen.print(f"looks at position 6 in {percent(found.exam.finds_6)} of them (largest head-mean weight of row 7)")
    screen.print("Each held-out sentence asks for a verb-pronoun pair that was never trained.", style="dim")
    screen.print(f"{SENTENCE}   the answer: {found.answer} (probability {found.probability:.4f})\n")
    screen.print(row7_table(found))
    screen.print("\n2. Every step of attention, and the gradient that reaches it\n", style="bold")
    screen.print(trace_table(found))
    return found


def _vanish(screen: Console, seed: int) -> list[Sample]:
    screen.print("\n3. The same attention without 1/sqrt(d_k)\n", style="bold")
    with progress(screen, "measuring", 8) as update:
        samples = vanishing(seed=seed, on_step=lambda done, total: update(done, ""))
    screen.print(vanishing_table(samples))
    for line in EXPLANATION:
        screen.print(line)
    return samples


def _pictures(screen: Console, out: Path, found: Reading, samples: list[Sample]) -> list[str]:
    """The names of the pictures."""
    if not can_draw(screen):
        return []
    from ..show.pictures import attention_picture, gradient_picture

    attention_picture(found.weights, SENTENCE.split(), found.answer).savefig(out / "attention.png")
    norms = {(s.d_k, s.scaled): s.score_gradient.ravel() for s in samples}
    gradient_picture(norms).savefig(out / "gradient_flow.png")
    return ["attention.png", "gradient_flow.png"]


def _summary(seed: int, found: Reading, vanished: Table) -> dict[str, Any]:
    row7 = found.weights[:, -1].astype(float)  #                    (heads, 8)
    held_out = found.exam.row7.mean(axis=0).astype(float)  #        (heads, 8)
    return {
        "seed": seed,
        "accuracy": found.exam.accuracy,
        "position_6_largest": found.exam.finds_6,
        "held_out_sentences": found.held_out,
        "sentence": SENTENCE,
        "answer": found.answer,
        "row7": {"heads": row7.tolist(), "mean": row7.mean(axis=0).tolist()},
        "row7_held_out": {"heads": held_out.tolist(), "mean": held_out.mean(axis=0).tolist()},
        "vanishing": vanished.rows,
        "versions": {"tinygrad_attn": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }
