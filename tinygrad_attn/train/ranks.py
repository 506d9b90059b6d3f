"""Workers in processes of MPI: each rank takes its share of the same global batch.

    mpirun -n 4 tinygrad-attn train text

    rank r of N with w threads runs the workers r*w ... r*w + w - 1 of N*w in all
    total: one Allreduce for each flat buffer, in place; at a fixed N the order of its additions is fixed
    everybody then clips and steps alike, so the weights stay equal without being sent

MPI is imported only in a process that an MPI launcher started, or that was asked to.  The sums are sent after
backward, not during it: no thread of MPI moves data while NumPy computes, and sending in four parts during backward
was as fast (in 53 of 118 pairs of steps faster with 0.8 MB, in 11 of 22 with 3.3 MB; tests/benchmarks/scaling.py)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..autodiff.arrays import Array, module_of, to_host
from ..files.errors import UserError
from ..optim import Optimizer
from .workers import Threads

T = TypeVar("T")

# (how many, which one) as each launcher says it: Open MPI; MPICH, Intel MPI and Slurm's PMI; Slurm's PMIx or none
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)


class MPIError(UserError):
    """Ranks cannot work together, and why."""


class Disagree(MPIError):
    """All ranks know of this error and end by themselves."""


def launched() -> tuple[int, int] | None:
    """(processes in all, number of this one) where a launcher started more than one; None elsewhere."""
    for size, number in LAUNCHERS:
        count = os.environ.get(size, "")
        if count.isdecimal() and int(count) > 1:
            return int(count), int(os.environ.get(number) or 0)
    return None


def world(asked: bool = False, threads: int = 1) -> Ranks | None:
    """The ranks of this job; None in a process that stands alone (and was not asked to use MPI).

    Errors: MPIError where mpi4py or the MPI library is missing, or does not belong to the launcher."""
    started = launched()
    if started is None and not asked:
        return None
    try:
        import mpi4py

        mpi4py.rc.thread_level = "funneled"  # only the main thread talks to MPI: no locks inside it
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the second: no MPI library
        why = f"{started[0]} processes were started together" if started else "--mpi was asked for"
        raise MPIError(
            f"{why}, but MPI cannot be used: {error}; pip install 'tinygrad_attn[mpi]' and an MPI library"
        ) from None
    comm = MPI.COMM_WORLD
    if started and comm.size != started[0]:
        library = MPI.Get_library_version().split(",")[0]
        raise MPIError(
            f"{started[0]} processes were started together, but MPI sees {comm.size}: start them with the launcher of "
            f"the MPI library that mpi4py uses ({library}), under Slurm with srun --mpi=pmix or pmi2"
        )
    return Ranks(comm, threads)


class Ranks:
    """Workers (see workers.py) over an MPI communicator: ``threads`` in each of its processes."""

    def __init__(self, comm: Any, threads: int = 1) -> None:
        self.comm, self.number, self.size = comm, int(comm.Get_rank()), int(comm.Get_size())
        self.count = self.size * threads
        self.mine = range(self.number * threads, (self.number + 1) * threads)
        self._threads = Threads(threads)
        from mpi4py import MPI

        self._mpi = MPI

    # ------------------------------------------------------------------------ working

    def each(self, work: Callable[[int], T]) -> list[T]:
        return self._threads.each(lambda local: work(self.mine[local]))

    def total(self, sums: list[Array]) -> None:
        for array in sums:
            self._on_host(array, lambda host: self.comm.Allreduce(self._mpi.IN_PLACE, host))

    def agreed(self, stop: bool, norm: Array) -> bool:
        """Is any rank asked to stop?  All ranks stop after the same step.  The norm of the gradient is compared as
        well: it decides the step's size, and where processors differ its last bit might.

        Errors: Disagree."""
        here = float(norm)
        said = np.array([float(stop), here, -here])
        self.comm.Allreduce(self._mpi.IN_PLACE, said, self._mpi.MAX)
        if said[1] != -said[2] and np.isfinite(said).all():
            raise Disagree(
                f"ranks compute the norm of one gradient as {-said[2]!r} and {said[1]!r}, so their weights would part: "
                "their processors differ; start all with OPENBLAS_CORETYPE=Haswell in the environment"
            )
        return bool(said[0])

    def follow_first(self, optimizer: Optimizer) -> None:
        """Weights, moments and counts of steps become those of rank 0."""
        optimizer.lr = self.comm.bcast(optimizer.lr)
        for group in optimizer.groups:
            group.adopt()
            group.steps_taken = self.comm.bcast(group.steps_taken)
            for array in (group.values, *group.moments.values()):
                self._on_host(array, self.comm.Bcast)

    def _on_host(self, array: Array, send: Callable[[Array], None]) -> None:
        """``send(array)``: as it is where MPI can read it, else through a copy in the host's memory."""
        module = module_of(array)
        if module is np:
            send(array)
        elif hasattr(array, "__cuda_array_interface__") and cuda_aware():
            module.cuda.get_current_stream().synchronize()  # MPI knows nothing of CuPy's streams
            send(array)
        else:
            host = np.ascontiguousarray(to_host(array))
            send(host)
            array[...] = module.asarray(host)

    # ------------------------------------------------------------------------ beginning and ending together

    def first_does(self, work: Callable[[], T]) -> T:
        """``work()`` on rank 0; its result everywhere.  Errors: Disagree everywhere, with the message of its error."""
        result, error = _tried(work) if self.number == 0 else (None, None)
        result, error = self.comm.bcast((result, error))
        if error is not None:
            raise Disagree(error)
        return result

    def all_do(self, work: Callable[[], T]) -> T:
        """``work()`` on every rank.  Errors: Disagree everywhere if one fails."""
        result, error = _tried(work)
        errors: dict[str, list[int]] = {}
        for number, message in enumerate(self.comm.allgather(error)):
            if message is not None:
                errors.setdefault(message, []).append(number)
        if errors:
            message, numbers = next(iter(errors.items()))
            raise Disagree(message if len(numbers) == self.size else f"rank {_listed(numbers)}: {message}")
        return result

    def same(self, values: dict[str, Any]) -> None:
        """Errors: Disagree where a value is not the same on all ranks."""
        everyone = self.comm.allgather(values)
        found = []
        for name, ours in everyone[0].items():
            others = [number for number, theirs in enumerate(everyone) if theirs.get(name) != ours]
            if others:
                theirs = everyone[others[0]].get(name)
                found.append(f"{name} {ours!r} on rank 0 and {theirs!r} on rank {_listed(others)}")
        if found:
            raise Disagree(f"ranks disagree: {'; '.join(found)}; start all of them alike")

    def wait(self) -> None:
        """Until all ranks are here: a launcher stops everybody when the first one leaves with an error."""
        self.comm.Barrier()

    def abort(self, status: int) -> None:
        """End all ranks at once: the launcher stops them and gives `status`."""
        self.comm.Abort(status)


def cuda_aware() -> bool:
    """Can this MPI send from the memory of a GPU?  (Open MPI and MPICH answer, others are taken not to.)"""
    try:
        return bool(ctypes.CDLL(None).MPIX_Query_cuda_support())
    except (AttributeError, OSError, TypeError):
        return False


def _tried(work: Callable[[], T]) -> tuple[Any, str | None]:
    try:
        return work(), None
    except Exception as error:
        return None, str(error) or type(error).__name__


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:4])) + (f" and {len(numbers) - 4} more" if len(numbers) > 4 else "")
