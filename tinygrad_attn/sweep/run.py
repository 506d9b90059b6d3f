"""Run the cells of a plan: none depends on another, and each result is stored as soon as it is there.

A worker that dies loses its cell, which Dask gives to another one (up to three times: a cell that kills every worker
is reported as failed).  An error inside a cell would happen again, so the cell is not tried again."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, as_completed
from contextlib import suppress
from typing import Any

from ..autodiff.blas import one_thread_blas
from ..train.versions import code, differences
from .kinds import KINDS
from .plan import Cell, Plan
from .store import Outcome, Store

Show = Callable[[Cell, Outcome], None]


def work(run: str, settings: dict[str, Any]) -> Outcome:
    """One cell, on a worker."""
    started = time.perf_counter()
    try:
        with one_thread_blas():
            results = KINDS[run](**settings).run()
        found: Outcome = {"results": {name: float(value) for name, value in results.items()}}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    return found | {"seconds": round(time.perf_counter() - started, 3), "code": code()}


def finished(plan: Plan, store: Store) -> dict[str, Outcome]:
    """The cells of the plan that are finished already, by id."""
    return {cell.id: outcome for cell in plan.cells if (outcome := store.finished(cell)) is not None}


def run_cells(cells: list[Cell], executor: Executor, store: Store, show: Show) -> None:
    """Run the cells; ``show(cell, outcome)`` as each one is done or has failed.

    Errors: UserError when the disk is full."""
    ours = code()
    futures = {executor.submit(work, cell.run, cell.settings): cell for cell in cells}
    try:
        for future in as_completed(futures):
            cell, outcome = futures[future], _outcome(future)
            if found := differences(ours, outcome.get("code", ours)):  # a worker that joined later
                outcome = {"error": f"ran on a worker with other code: {found}"}
            if "results" in outcome:
                store.keep(cell, outcome)
            show(cell, outcome)
    finally:
        with suppress(OSError, CancelledError):  # the scheduler is lost
            executor.shutdown(wait=False)  # Dask's cancels what is left


def _outcome(future: Future[Outcome]) -> Outcome:
    """The results of a cell, or why it has none."""
    try:
        return future.result()
    except CancelledError:
        return {"error": "lost with the scheduler"}
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            return {"error": "its worker was killed each time that it was tried (too little memory?)"}
        return {"error": f"{type(error).__name__}: {error}"}
