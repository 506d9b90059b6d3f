"""``tinygrad-attn lab [NAME | all]``: one experiment, all of them, or the list."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console

from ..files.errors import UserError
from ..lab.catalogue import EXPERIMENTS
from ..lab.words import spoken
from .output import can_draw, console, folder, progress
from .shared_arguments import add_language, at_least, flag


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "an experiment, or all; without it the experiments are listed"
    parser.add_argument("name", nargs="?", metavar="NAME", help=names)
    flag(parser, "--seeds", "how many seeds (default: each experiment's own number)", at_least(1))
    flag(parser, "--out", "also write a CSV file and, with matplotlib, a picture each", Path, "DIR")
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    screen = console()
    if arguments.name is None:
        for name, one in EXPERIMENTS.items():
            screen.print(f"{name:15} {spoken(one.question, arguments.lang)}")
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
    one = EXPERIMENTS[name]
    screen.print(f"\n{name}: {spoken(one.question, language)}\n", style="bold")
    with progress(screen, name, 100) as update:
        table = one(seeds, language, lambda done, total: update(100 * done // total, f"{done}/{total}"))
    screen.print(table)
    if out is None:
        return
    table.to_csv(out / f"{name}.csv")
    if table.picture is not None and can_draw(screen):
        table.plot().savefig(out / f"{name}.png")
