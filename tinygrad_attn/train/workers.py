"""Workers: who computes which share of a batch, and how the shares' sums come together.

There are ``count`` workers in all, and this process runs those in ``mine``.  They are threads of one process
(`Threads`), or of many processes of MPI (`Ranks`, in ranks.py), each of which runs its own ``mine`` and adds the
others' sums in ``total``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Protocol, TypeVar

from ..autodiff.arrays import Array

T = TypeVar("T")


class Workers(Protocol):
    count: int  # workers in all
    mine: range  # the numbers of those that run here

    def each(self, work: Callable[[int], T]) -> list[T]:
        """``work(number)`` for each worker of mine, all at once; their results in order."""

    def total(self, sums: list[Array]) -> None:
        """Add the other processes' sums to mine, in place, in an order that never changes."""

    def agreed(self, stop: bool, norm: Array) -> bool:
        """After each step: is any process asked to `stop`?  `norm`: of this step's gradient, the same everywhere."""


class Threads:
    """Workers are threads of this process.  NumPy releases the lock inside its loops and products, so N threads
    with a one-thread BLAS each keep N cores busy in *all* of a step, where BLAS's own threads only share the
    products (33 ms to 20-25 ms for a step of d_model 64, 4 layers, 64 positions, 16 rows, on 2 cores)."""

    def __init__(self, count: int = 1) -> None:
        if count < 1:
            raise ValueError(f"expected at least one worker, got {count}")
        self.count, self.mine = count, range(count)
        self._pool = ThreadPoolExecutor(count - 1, thread_name_prefix="worker") if count > 1 else None

    def each(self, work: Callable[[int], T]) -> list[T]:
        if self._pool is None:
            return [work(0)]
        others = [self._pool.submit(copy_context().run, work, number) for number in self.mine[1:]]
        try:
            first = work(0)
        finally:
            for other in others:  # nobody may still write when we return, also after an error
                other.exception()
        return [first, *[other.result() for other in others]]

    def total(self, sums: list[Array]) -> None:
        """Nothing to add: all workers are here."""

    def agreed(self, stop: bool, norm: Array) -> bool:
        return stop


def share(rows: int, workers: int, number: int) -> range:
    """Which of `rows` rows worker `number` takes; no two shares differ by more than one row.

    >>> [share(7, 3, i) for i in range(3)]
    [range(0, 2), range(2, 4), range(4, 7)]
    """
    return range(rows * number // workers, rows * (number + 1) // workers)


def sensible_workers(rows: int, context: int, d_model: int, n_layers: int) -> int:
    """One worker per core, but none for less than 64 Ki activations: below, handing over costs more than it saves."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, rows, rows * context * d_model * n_layers >> 16))
