"""The second core: two threads over the heads, each with a one-thread BLAS, and scratch that stays warm.

NumPy releases the lock inside products and elementwise work, so threads over heads use every core for
*all* passes, where a many-thread BLAS uses them in the products only.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from typing import Any

import numpy as np

from ...autodiff.blas import blas_threads

_warm = threading.local()
_splitting = threading.Lock()


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised array that this thread reuses under `name`: fresh megabytes cost page faults on every call."""
    buffers: dict[tuple[str, Any], np.ndarray] = _warm.__dict__.setdefault("buffers", {})
    key, size = (name, dtype), math.prod(shape)
    buffer = buffers.get(key)
    if buffer is None or buffer.size < size:
        buffer = buffers[key] = np.empty(size, dtype)
    return buffer[:size].reshape(shape)


@contextmanager
def fresh_scratch() -> Iterator[None]:
    """Inside, this thread reuses no scratch from outside, and none from inside stays."""
    before, _warm.__dict__["buffers"] = _warm.__dict__.get("buffers", {}), {}
    try:
        yield
    finally:
        _warm.__dict__["buffers"] = before


@lru_cache(maxsize=1)
def _pool(extra: int, process: int) -> ThreadPoolExecutor:  # by process: threads do not survive a fork
    return ThreadPoolExecutor(extra, thread_name_prefix="tinygrad_attn")


def run(work: Callable[[Any], None], tasks: Iterable[Any]) -> None:
    """``work(task)`` for every task, on as many threads as BLAS was allowed; BLAS runs with one meanwhile.

    Where BLAS is held to one thread (by the user, or because the batch is already split over threads),
    and while another thread is inside, the tasks run here one after another.
    """
    todo = deque(tasks)

    def drain() -> None:
        while todo:
            try:
                task = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            work(task)

    blas = blas_threads() if len(todo) > 1 else None
    threads = min(blas[0](), len(todo)) if blas else 1
    if blas is None or threads < 2 or not _splitting.acquire(blocking=False):
        return drain()
    get, set_to = blas
    before = get()
    try:
        set_to(1)
        others = [_pool(before - 1, os.getpid()).submit(copy_context().run, drain) for _ in range(threads - 1)]
        try:
            drain()
        finally:
            todo.clear()
            # Waits, since nobody may still write when we return; but not for a thread that found no core to start on.
            failures = [each.exception() for each in others if not each.cancel()]
        for failure in failures:
            if failure is not None:
                raise failure
    finally:
        set_to(before)
        _splitting.release()
