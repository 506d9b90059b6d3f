"""The folder of a sweep: a finished cell is never run again.

cells/<id>.json   settings and results of one cell, whole or not there
results.csv       one line per cell, with the error of one that failed
lock              held while a sweep writes here
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..files.atomic import write_text
from ..files.errors import as_user_error
from ..files.lock import locked
from ..lab.result import mean_and_spread
from ..show.numbers import number
from ..show.table import Column, Table
from .plan import Cell, Plan

Outcome = dict[str, Any]  # results: {name: number}, or error: text; seconds; code


class Store:
    def __init__(self, path: Path) -> None:
        self.path, self.cells = path, path / "cells"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Errors: UserError while another sweep writes here, or where nothing can be written."""
        with locked(self.path, "sweep"):
            self.cells.mkdir(exist_ok=True)
            yield

    def finished(self, cell: Cell) -> Outcome | None:
        """The stored outcome of a cell; None where it is not finished, or its file is damaged."""
        try:
            stored = json.loads((self.cells / f"{cell.id}.json").read_text(encoding="utf-8"))
            return stored if stored["settings"] == cell.settings and isinstance(stored["results"], dict) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, cell: Cell, outcome: Outcome) -> None:
        """Errors: UserError when the disk does not take it."""
        text = json.dumps({"run": cell.run, "settings": cell.settings, **outcome})
        self._write(self.cells / f"{cell.id}.json", text + "\n")

    def write_csv(self, plan: Plan, outcomes: Mapping[str, Outcome]) -> Path:
        """One line per cell that has an outcome, in the order of the grid."""
        found = [(cell, outcomes[cell.id]) for cell in plan.cells if cell.id in outcomes]
        rows = [cell.settings | outcome.get("results", {}) | outcome for cell, outcome in found]
        columns = [Column(name, name) for name in [*plan.axes, *measured(outcomes), "seconds", "error"]]
        path = self.path / "results.csv"
        self._write(path, Table("", columns, rows).to_csv())
        return path

    def _write(self, path: Path, text: str) -> None:
        with as_user_error(OSError, doing=f"cannot write {path}", remedy="what was finished before is kept"):
            write_text(path, text)


def measured(outcomes: Mapping[str, Outcome]) -> list[str]:
    """The names of what was measured."""
    return list(dict.fromkeys(name for outcome in outcomes.values() for name in outcome.get("results", {})))


def summary(plan: Plan, outcomes: Mapping[str, Outcome]) -> Table:
    """Mean and standard deviation over the seeds, for each combination of the other keys."""
    axes = [name for name in plan.axes if name != "seed"]
    groups: dict[tuple[Any, ...], list[Outcome]] = {}
    for cell in plan.cells:
        if cell.id in outcomes:
            groups.setdefault(tuple(cell.settings[name] for name in axes), []).append(outcomes[cell.id])
    names, rows = measured(outcomes), []
    for values, group in groups.items():
        good = [outcome["results"] for outcome in group if "results" in outcome]
        row: dict[str, Any] = dict(zip(axes, values)) | {"cells": len(good), "failed": len(group) - len(good)}
        for name in names:
            row[f"{name}:"] = _mean_and_spread([results[name] for results in good if name in results])
        rows.append(row)
    columns = [Column(name, name) for name in [*axes, "cells"]]
    columns += [Column("failed", "failed")] if any(row["failed"] for row in rows) else []
    columns += [Column(f"{name}:", name.replace("_", "\n")) for name in names]  # the colon: an axis may have that name
    notes = ["mean ± standard deviation over the seeds"] if "seed" in plan.axes else []
    return Table(f"Sweep of {plan.run}", columns, rows, notes)


def _mean_and_spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean, spread = mean_and_spread(values)
    return f"{number(mean)} ± {number(spread, 2)}" if len(values) > 1 else number(mean)
