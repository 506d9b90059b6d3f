"""How every benchmark here compares and prints.

Times drift by a factor of two between runs, so ours and its peers take turns in one process, round after
round, and only the ratio of their medians counts:

    name          ours       peer   ratio  goal
    4x4 torch     3.3 us     6.3 us  1.91   1.5
    worst 1.27

ratio = peer time / ours (above 1: we are faster).  `worst` is the smallest ratio/goal: at 1 or more, every
goal is met.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], Any]


def alternate(runs: dict[str, Run], rounds: int, calls: int | None = None, slice: float = 1e-3) -> dict[str, float]:
    """Median seconds per call of each run.  A round times each once: `calls` calls in a row, or (None) as many
    as take about `slice` seconds.  Every second round goes backwards, so that nobody always follows the same
    neighbour.

    Two things would flatter us.  With equal numbers of calls the slower runs are interrupted more often by
    whoever shares the machine: hence slices.  And a big library is slow right after another one has filled
    the processor's caches (PyTorch by 1.5 at 4x4): short runs are called once before the clock starts."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    once = {name: _seconds_of_one(run, slice) for name, run in runs.items()}
    for i in range(rounds):
        for name in list(runs)[:: -1 if i % 2 else 1]:
            if once[name] < 10 * slice:
                runs[name]()
            count = calls or max(1, round(slice / once[name]))
            seconds[name].append(_time(runs[name], count) / count)
    return {name: statistics.median(times) for name, times in seconds.items()}


def _seconds_of_one(run: Run, slice: float) -> float:
    """The fastest of a few calls, after one for lazy imports and allocators (PyTorch's first takes a second)."""
    run()
    second = _time(run, 1)
    return second if second > 10 * slice else min(_time(run, 1) for _ in range(5))


def _time(run: Run, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - start


def peer(name: str) -> Any:
    """The module `name`, or None, with a line, where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: its rows are skipped (pip install 'tinygrad_attn[peers]')")
        return None


class Report:
    """Collects rows, prints each as it comes, ends with `worst`.

    >>> report = Report()
    name                       ours       peer  ratio   goal
    >>> report.row("exp torch", ours=2e-6, peer=3e-6, goal=1.0)
    exp torch               2.00 us    3.00 us   1.50   1.00
    >>> report.finish()
    worst 1.50
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        print(f"{'name':<20} {'ours':>10} {'peer':>10} {'ratio':>6} {'goal':>6}")

    def row(self, name: str, ours: float, peer: float, goal: float) -> None:
        """One comparison: seconds of ours and of the peer, and the ratio that we want to reach."""
        self.rows.append({"name": name, "ours": ours, "peer": peer, "ratio": peer / ours, "goal": goal})
        print(f"{name:<20} {_duration(ours):>10} {_duration(peer):>10} {peer / ours:6.2f} {goal:6.2f}", flush=True)

    def finish(self, path: Path | None = None) -> None:
        """Print the last line; write the rows as JSON where a path is given."""
        worst = min((row["ratio"] / row["goal"] for row in self.rows), default=float("nan"))
        if path is not None:
            path.write_text(json.dumps({"rows": self.rows, "worst": worst if self.rows else None}, indent=1) + "\n")
        print(f"worst {worst:.2f}")


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.2f} us"


def arguments(description: str | None) -> argparse.Namespace:
    """What every benchmark takes: `--json FILE` and `--quick`."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds: the numbers mean little")
    return parser.parse_args()
