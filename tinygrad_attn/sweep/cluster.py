"""The Dask cluster that runs the cells: processes on this machine, or a scheduler that is there already.

Asked before any work: does the scheduler answer, has it workers, do they run the same code as we do?"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any

from ..files.errors import UserError, as_user_error, needs
from ..train.versions import code, differences

PATIENCE = 5.0  # seconds until a scheduler must have answered
WORKERS_WITHIN = 30.0  # seconds until a scheduler must have a worker


@contextmanager
def cluster(address: str | None = None, workers: int = 1) -> Iterator[Any]:
    """A ``distributed.Client``: of the scheduler at `address`, or (None) of `workers` processes on this machine.

    Errors: UserError, also when the connection is lost later."""
    distributed, dask = needs("distributed", "dask", "a sweep"), needs("dask", "dask", "a sweep")
    for name in [
        name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado", "asyncio"))
    ]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # the sweep itself reports failed cells
    patience = {"distributed.comm.timeouts.connect": f"{PATIENCE}s"}
    lost = as_user_error(
        OSError, CancelledError, asyncio.CancelledError, doing="lost the scheduler", remedy="finished cells are kept"
    )
    with lost, ExitStack() as opened, dask.config.set(patience):
        if address is None:
            local = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,  # Dask itself limits BLAS to one thread
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0" if _can_show() else None,
                silence_logs=logging.CRITICAL,
                protocol="tls",  # Dask runs what it is sent: nobody else on the machine gets in
                security=distributed.security.Security.temporary(),
            )
            client = opened.enter_context(distributed.Client(opened.enter_context(local)))
        else:
            with as_user_error(OSError, ValueError, doing=f"no scheduler answers at {address} within {PATIENCE:g} s"):
                asyncio.run(_answers(address))
                client = opened.enter_context(distributed.Client(address, timeout=PATIENCE))
        _same_code(client, address)
        yield client


async def _answers(address: str) -> None:
    """Connect once.  (The client would wait for ever for a server that accepts the connection and says nothing.)"""
    from distributed.comm import connect

    comm = await asyncio.wait_for(connect(address, timeout=PATIENCE), PATIENCE)
    comm.abort()


def dashboard(client: Any, address: str | None) -> str:
    """The link to the dashboard, or why there is none."""
    if address is None and not _can_show():
        return "none (pip install bokeh)"
    try:
        return str(client.dashboard_link)
    except KeyError:  # a scheduler started with --no-dashboard
        return "none"


def _can_show() -> bool:
    return importlib.util.find_spec("bokeh") is not None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _same_code(client: Any, address: str | None) -> None:
    where = address or "the local cluster"
    remedy = f"start one: dask worker {where}"
    with as_user_error(TimeoutError, doing=f"{where} has no workers", remedy=remedy):
        client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    ours = code()
    with as_user_error(Exception, doing=f"the workers of {where} cannot load this package", remedy="install the same"):
        theirs = client.run(code)
    for worker, versions in theirs.items():
        if found := differences(ours, versions):
            raise UserError(f"the worker {worker} runs other code: {found}; install the same everywhere")
