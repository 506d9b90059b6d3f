"""Step time against the number of MPI ranks here, the bytes they move, and a model on paper of many more.

    python tests/benchmarks/scaling.py [--json FILE] [--quick]        (needs mpirun and mpi4py)

Measured in one job in which the numbers of ranks take turns, all others asleep; one BLAS thread each:

    N=2      the same global batch by two ranks (ours) and by one (peer): ratio is the speed-up
    model    the measured step of two ranks (ours) and what the model below says of it (peer): 1 is exact

Then the efficiency that the model (scaling_model.py) gives at 8, 64 and 512 ranks.  Times are the fastest of their rounds:
on a machine that others use as well, medians of two ranks measure the others."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from compare import Report, arguments, peer
from scaling_model import CONFIGURATIONS, modelled, table

from tinygrad_attn.autodiff.blas import one_thread_blas
from tinygrad_attn.autodiff.mode import drawing
from tinygrad_attn.autodiff.ops.loss import cross_entropy
from tinygrad_attn.autodiff.walk import walk
from tinygrad_attn.nn import MiniGPT
from tinygrad_attn.optim import AdamW
from tinygrad_attn.tasks.letters import Batch
from tinygrad_attn.train.allocator import keep_freed_memory
from tinygrad_attn.train.gradient import BatchGradient, keys, scaled_and_clipped
from tinygrad_attn.train.ranks import Ranks
from tinygrad_attn.train.workers import share

VOCABULARY = 65
Work = tuple[int, Callable[[], Any]]  # by how many ranks, and what each of them does
GOALS = {"speed-up": 1.3, "model": 0.75}
BUCKETS = 4  # of the variant that sends during backward
CALLS = {"seed": 8, "nano": 4, "wide": 3}  # in a row


class Training:
    """The steps of one configuration by the ranks of one communicator."""

    def __init__(self, name: str, comm: Any, gradient: type[BatchGradient] = BatchGradient) -> None:
        self.context, d_model, heads, layers, self.batch = CONFIGURATIONS[name]
        model = MiniGPT(VOCABULARY, self.context, d_model, heads, layers, seed=0)
        self.optimizer = AdamW(model.parameters(), matrices_only=True)
        self.gradient = gradient(model, self.optimizer, Ranks(comm), seed=0)
        tokens = np.random.default_rng(0).integers(VOCABULARY, size=(self.batch, self.context + 1))
        self.rows = lambda first, size: Batch(tokens[first : first + size, :-1], tokens[first : first + size, 1:])

    def step(self) -> None:
        self.update(self.gradient(self.rows, self.batch, 0)[1], 1.0)

    def part(self, rows: int) -> None:
        """Forward and backward of `rows` rows, and nothing else."""
        self.gradient(self.rows, rows, 0)

    def update(self, count: float = 1.0, max_norm: float = 1e30) -> None:
        """Clip and step; by default with gradients as they are, which stay what they are however often this runs."""
        scaled_and_clipped(self.optimizer.gradients, count, max_norm)
        self.optimizer.step_flat()

    @property
    def bytes(self) -> int:
        return sum(g.nbytes for g in self.optimizer.gradients)


class Overlapped(BatchGradient):
    """Sends a bucket of gradients as soon as backward has written the last of it."""

    def __call__(self, rows: Any, size: int, step: int) -> Any:
        ranks: Any = self.workers
        mpi, comm, buffers = ranks._mpi, ranks.comm, self.optimizer.gradients
        waiting = [self._bucket_of(group, len(g)) for group, g in zip(self.optimizer.groups, buffers)]
        mine, sent = share(size, ranks.count, ranks.number), []
        tokens, targets = rows(mine.start, len(mine))
        with drawing(keys(self.seed, step, mine.start)):
            loss = cross_entropy(self.model(tokens), targets)
        numbers = np.array([float(loss._data) * targets.size, targets.size])
        for arrived in walk({loss._node: np.asarray(targets.size, loss.dtype)}, every=False):
            if place := self._places.get(arrived.node):
                group, stretch = place
                buffers[group][stretch] = arrived.gradient.reshape(-1)
                bucket = next(b for b in waiting[group] if b[0] <= stretch.start < b[1])
                bucket[2] -= 1
                if not bucket[2]:
                    sent.append(comm.Iallreduce(mpi.IN_PLACE, buffers[group][bucket[0] : bucket[1]]))
        comm.Allreduce(mpi.IN_PLACE, numbers)
        mpi.Request.Waitall(sent)
        return numbers

    @staticmethod
    def _bucket_of(group: Any, size: int) -> list[list[int]]:
        """[start, stop, parameters to come] of each bucket."""
        buckets = [[0, 0, 0]]
        for place in group.places:
            if buckets[-1][1] - buckets[-1][0] >= size / BUCKETS:
                buckets.append([place.start, place.start, 0])
            buckets[-1][1], buckets[-1][2] = place.stop, buckets[-1][2] + 1
        return buckets


# ---------------------------------------------------------------------------- in the job


def measure(path: Path, quick: bool) -> None:
    """By every rank of the job; rank 0 writes what was measured."""
    world = Ranks(_comm()).comm
    keep_freed_memory()
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= world.size]
    parts = {n: world.Split(0 if world.rank < n else 1) for n in counts}
    found: dict[str, Any] = {"ranks": counts, "configurations": {}}
    with one_thread_blas():
        found |= _messages(world, quick)
        for name in list(CONFIGURATIONS)[: 2 if quick else None]:
            whole = {n: Training(name, parts[n]) for n in counts if world.rank < n}
            overlapped = {n: Training(name, parts[n], Overlapped) for n in counts[1:] if world.rank < n}
            runs: dict[str, Work] = {}
            for n in counts:
                runs[f"step {n}"] = (n, whole[n].step if n in whole else _nothing)
                if n > 1:
                    runs[f"overlap {n}"] = (n, overlapped[n].step if n in overlapped else _nothing)
            one = whole.get(1)
            batch = CONFIGURATIONS[name][-1]
            runs["rows all"] = (1, lambda one=one, batch=batch: one.part(batch))
            runs["rows half"] = (1, lambda one=one, batch=batch: one.part(batch // 2))
            runs["update"] = (1, lambda one=one: one.update())
            samples = _in_turns(world, parts, runs, CALLS[name], rounds=2 if quick else 6)
            pairs = list(zip(samples["overlap 2"], samples["step 2"]))
            found["configurations"][name] = {
                "bytes": next(iter((whole or overlapped).values())).bytes,
                "seconds": {name: min(times, default=0.0) for name, times in samples.items()},
                "overlap_faster": [sum(during < after for during, after in pairs), len(pairs)],
            }
    if world.rank == 0:
        path.write_text(json.dumps(found))


def _comm() -> Any:
    import mpi4py

    mpi4py.rc.thread_level = "funneled"
    from mpi4py import MPI

    return MPI.COMM_WORLD


def _nothing() -> None:
    """What a rank does that is not asked."""


def _in_turns(
    world: Any, parts: dict[int, Any], runs: dict[str, Work], calls: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each run: `calls` in each round.  The first call of a round, with its data out of the caches and its core
    given to others, is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds):
        for name in list(runs)[:: -1 if i % 2 else 1]:
            ranks, work = runs[name]
            _asleep_until_all_are_here(world)
            for call in range(calls + 1 if world.rank < ranks else 0):
                parts[ranks].Barrier()
                start = time.perf_counter()
                work()
                if call:
                    seconds[name].append(time.perf_counter() - start)
    return seconds


def _asleep_until_all_are_here(world: Any) -> None:
    """A barrier that leaves the cores to others: MPI's own one spins."""
    request = world.Ibarrier()
    while not request.Test():
        time.sleep(2e-4)


def _messages(world: Any, quick: bool) -> dict[str, Any]:
    """Latency (s) and bandwidth (bytes/s) of messages between ranks 0 and 1; bytes/s of adding up; Allreduce by size."""
    rounds, times = 20 if quick else 100, {}
    for size in (8, 1 << 22):
        data = np.ones(size // 4, np.float32)
        samples = []
        for _ in range(rounds):
            world.Barrier()
            start = time.perf_counter()
            if world.rank == 0:
                world.Send(data, 1)
                world.Recv(data, 1)
            elif world.rank == 1:
                world.Recv(data, 0)
                world.Send(data, 0)
            samples.append((time.perf_counter() - start) / 2)
        times[size] = min(samples)
    added = []
    for _ in range(rounds):
        start = time.perf_counter()
        data += data
        added.append(time.perf_counter() - start)
        data[:] = 1.0
    latency = times[8]
    return {
        "latency": latency,
        "bandwidth": (1 << 22) / max(times[1 << 22] - latency, 1e-9),
        "adding": (1 << 22) / min(added),
    }


# ---------------------------------------------------------------------------- from outside


def main() -> None:
    if "--ranks-write" in sys.argv:
        measure(Path(sys.argv[sys.argv.index("--ranks-write") + 1]), "--quick" in sys.argv)
        return
    args = arguments(__doc__)
    if peer("mpi4py") is None or shutil.which("mpirun") is None:
        print("needs mpirun and mpi4py: nothing is measured")
        return
    cores = len(os.sched_getaffinity(0))
    ranks = 1 << max(int(math.log2(cores)), 1)  # two take turns even on a single core
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        flags = ["--ranks-write", str(path)] + ["--quick"] * args.quick
        # MPICH knows no --oversubscribe and needs none
        root = ["--allow-run-as-root", "--oversubscribe"] if b"Open MPI" in _said("mpirun", "--version") else []
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        subprocess.run(
            ["mpirun", *root, "-n", str(ranks), sys.executable, __file__, *flags], check=True, env=environment
        )
        found = json.loads(path.read_text())
    report = Report()
    for name, one in found["configurations"].items():
        seconds = one["seconds"]
        for n in found["ranks"][1:]:
            report.row(f"{name} N={n}", seconds[f"step {n}"], seconds["step 1"], GOALS["speed-up"])
        for n in found["ranks"]:
            said = modelled(name, found, n, CONFIGURATIONS[name][-1] / n, found["latency"], found["bandwidth"])
            report.row(f"{name} model N={n}", seconds[f"step {n}"], said, GOALS["model"])
    print()
    for name, one in found["configurations"].items():
        during, after = (one["seconds"][f"{what} 2"] * 1e3 for what in ("overlap", "step"))
        wins, pairs = one["overlap_faster"]
        text = f"sums sent in {BUCKETS} parts during backward {during:.1f}, faster in {wins} of {pairs} pairs"
        print(f"{name}: {after:.1f} ms a step by two ranks; {text}")
    print(f"\n{table(found)}")
    report.finish(args.json)


def _said(*command: str) -> bytes:
    return subprocess.run(command, capture_output=True).stdout


if __name__ == "__main__":
    main()
