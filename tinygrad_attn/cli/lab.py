"""``tinygrad-attn lab [NAME | all]``: one experiment, all of them, or the list."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console

from ..files.errors import UserError
from ..lab.catalogue import EXPERIMENTS, experiment
from ..lab.words import LANGUAGES, speaker
from .output import console, folder, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="an experiment, or all; without it the experiments are listed"
    )
    parser.add_argument(
        "--seeds", type=_count, metavar="N", help="how many seeds (default: each experiment's own number)"
    )
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="language of the tables (default en)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write a CSV file and, with matplotlib, a picture each"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 upward, got {text!r}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    screen, say = console(), speaker(arguments.lang)
    if arguments.name is None:
        for name, one in EXPERIMENTS.items():
            screen.print(f"{name:15} {say(one.en, one.es)}")
        return 0
    names = list(EXPERIMENTS) if arguments.name == "all" else [arguments.name]
    if names[0] not in EXPERIMENTS:
        raise UserError(f"no experiment {names[0]!r}; choose one of: {', '.join(EXPERIMENTS)}, all")
    out = None if arguments.out is None else folder(arguments.out)
    started = time.perf_counter()
    for name in names:
        _one(screen, name, arguments.seeds, arguments.lang, out)
    screen.print(f"{time.perf_counter() - started:.0f} s", style="dim")
    return 0


def _one(screen: Console, name: str, seeds: int | None, language: str, out: Path | None) -> None:
    one, say = EXPERIMENTS[name], speaker(language)
    screen.print(f"\n{name}: {say(one.en, one.es)}\n", style="bold")
    with progress(screen, name, 100) as update:
        table = experiment(name, seeds, language, lambda done, total: update(100 * done // total, f"{done}/{total}"))
    screen.print(table)
    if out is None:
        return
    table.to_csv(out / f"{name}.csv")
    if table.picture is not None:
        try:
            table.plot().savefig(out / f"{name}.png")
        except ImportError:
            screen.print(say("no picture: matplotlib is missing", "sin imagen: falta matplotlib"), style="dim")
