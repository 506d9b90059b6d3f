"""Work off a plan: cells are tasks that know nothing of each other, and each one is kept as soon as it is finished.

A worker that dies loses its cell, which Dask gives to another one (up to three times: a cell that kills every worker
is reported as failed).  An error inside a cell would come again, so it is not tried again."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
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


def kept(plan: Plan, store: Store) -> dict[str, Outcome]:
    """The cells of the plan that are finished already, by id."""
    return {cell.id: outcome for cell in plan.cells if (outcome := store.finished(cell)) is not None}


def work_off(cells: list[Cell], client: Any, store: Store, show: Show) -> None:
    """Run the cells on the cluster; ``show(cell, outcome)`` as each one is done, whatever became of it.

    Errors: UserError when the disk is full."""
    from distributed import as_completed

    ours = code()
    of_key = {f"{cell.run}-{cell.id}": cell for cell in cells}
    futures = [client.submit(work, cell.run, cell.settings, key=key, pure=False) for key, cell in of_key.items()]
    try:
        for future in as_completed(futures):
            cell, outcome = of_key[future.key], _outcome(future)
            if found := differences(ours, outcome.get("code", ours)):  # of a worker that came later
                outcome = {"error": f"ran on a worker with other code: {found}"}
            if "results" in outcome:
                store.keep(cell, outcome)
            show(cell, outcome)
            future.release()
    finally:
        with suppress(OSError, CancelledError):  # of a scheduler that is lost
            client.cancel([future for future in futures if not future.done()])


def _outcome(future: Any) -> Outcome:
    """What became of a task."""
    from distributed import KilledWorker

    if future.status == "finished":
        return future.result()
    if future.status == "cancelled":
        return {"error": "lost with the scheduler"}
    error = future.exception()
    if isinstance(error, KilledWorker):
        return {"error": "its worker was killed each time that it was tried (too little memory?)"}
    return {"error": f"{type(error).__name__}: {error}"}
