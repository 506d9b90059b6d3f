"""``tinygrad-attn sweep FILE.toml``: a grid of runs on a Dask cluster; started again, it goes on where it stopped."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from ..files.errors import UserError
from ..files.stop import on_stop
from ..sweep.cluster import cluster, cores, dashboard
from ..sweep.plan import Cell, Plan, described, read
from ..sweep.run import Outcome, finished, run_cells
from ..sweep.store import Store, summary
from ..train.versions import code, differences
from .output import console, progress
from .shared_arguments import flag, switch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.toml", help="what to run (examples/sweep.toml shows it)")
    flag(parser, "--out", "folder of the results (default runs/sweep/NAME OF THE FILE)", Path, "DIR")
    address = "a Dask scheduler, such as tcp://host:8786 (default: this machine)"
    flag(parser, "--scheduler", address, str, "ADDRESS")
    flag(parser, "--workers", "processes on this machine (default: one per core)")
    switch(parser, "--quiet", "write the files and print nothing but failed cells")


def run(arguments: argparse.Namespace) -> int:
    if arguments.workers is not None and (arguments.workers < 1 or arguments.scheduler):
        raise UserError("--workers: expected at least 1, and no --scheduler, which has workers of its own")
    screen, started = console(arguments.quiet), time.perf_counter()
    try:
        plan = read(arguments.file)
        store = Store(arguments.out or Path("runs") / "sweep" / arguments.file.stem)
        with store.locked():
            outcomes = finished(plan, store)
            screen.print(
                f"{len(plan.cells)} cells of {plan.run}" + (f", {len(outcomes)} finished before" if outcomes else "")
            )
            if any(differences(code(), outcome.get("code", {})) for outcome in outcomes.values()):
                screen.print(
                    "(some of these by other code than is installed now; for a fresh start choose another --out)"
                )
            try:
                with on_stop(_interrupt):
                    _go_on(screen, plan, store, outcomes, arguments)
            finally:  # also after Ctrl-C, which may come between storing a cell and noting it here
                outcomes |= finished(plan, store)
                path = store.write_csv(plan, outcomes)
    except KeyboardInterrupt:
        screen.print(f"stopped; {len(outcomes)} cells are kept, the same command goes on with the rest")
        return 130
    screen.print(summary(plan, outcomes))
    failed = sum("error" in outcome for outcome in outcomes.values())
    screen.print(f"Written to {path}" + (f"; {failed} failed: the same command tries them again" if failed else ""))
    screen.print(f"{time.perf_counter() - started:.0f} s", style="dim")
    return 1 if failed else 0


def _interrupt() -> NoReturn:
    """SIGTERM ends the sweep as Ctrl-C does."""
    raise KeyboardInterrupt


def _go_on(
    screen: Console, plan: Plan, store: Store, outcomes: dict[str, Outcome], arguments: argparse.Namespace
) -> None:
    """Run the cells that are not in `outcomes`, and put them there."""
    left = [cell for cell in plan.cells if cell.id not in outcomes]
    if not left:
        return
    loud = Console(stderr=True, highlight=False, markup=False)
    workers = arguments.workers or min(cores(), len(left))
    with cluster(arguments.scheduler, workers) as client:
        screen.print(f"dashboard: {dashboard(client, arguments.scheduler)}")
        with progress(screen, "cells", len(plan.cells)) as update:

            def show(cell: Cell, outcome: Outcome) -> None:
                outcomes[cell.id] = outcome
                update(len(outcomes), described({name: cell.settings[name] for name in plan.axes}))
                if "error" in outcome:
                    (loud if screen.quiet else screen).print(f"failed: {described(cell.settings)}: {outcome['error']}")

            run_cells(left, client.get_executor(pure=False), store, show)
