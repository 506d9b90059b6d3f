"""What a whole training step takes: forward, backward, clip, AdamW, on the same small GPT.

    python tests/benchmarks/train_step.py [--json FILE] [--quick] [--threads N] [--clock wall|cpu] [--only tiny,seed]

Ours against PyTorch eager (fused attention, fused AdamW) and, where installed, JAX jit.  Each framework has a
process of its own; they take turns, round after round, because times drift.  Behind the rows: which share of
our step is matrix products (nothing can be faster than these on this BLAS), and each process's peak memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
# vocabulary, context, d_model, heads, layers, rows
CONFIGURATIONS = {
    "tiny": (32, 8, 32, 2, 1, 16),
    "seed": (65, 64, 64, 4, 4, 16),
    "nano": (65, 256, 128, 4, 4, 8),
    "wide": (65, 256, 384, 6, 6, 4),
}
GOALS = {
    "tiny": {"torch": 1.5},
    "seed": {"torch": 1.0, "jax": 1.5},
    "nano": {"torch": 0.95, "jax": 1.5},
    "wide": {"torch": 0.95, "jax": 1.2},
}
ROUNDS = {"tiny": (9, 200), "seed": (9, 12), "nano": (7, 4), "wide": (5, 1)}  # rounds, steps in each
FRAMEWORKS = ("ours", "torch", "jax")


# ---------------------------------------------------------------------------- one framework, in its own process


def batch(configuration: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    vocab_size, context, *_, rows = configuration
    rng = np.random.default_rng(0)
    return rng.integers(vocab_size, size=(rows, context)), rng.integers(vocab_size, size=(rows, context))


def ours(configuration: tuple[int, ...], threads: int) -> Callable[[], Any]:
    from tinygrad_attn.autodiff.blas import one_thread_blas
    from tinygrad_attn.nn import MiniGPT
    from tinygrad_attn.optim import AdamW
    from tinygrad_attn.tasks.letters import Batch
    from tinygrad_attn.train.allocator import keep_freed_memory
    from tinygrad_attn.train.gradient import BatchGradient, scaled_and_clipped
    from tinygrad_attn.train.workers import Threads, sensible_workers

    vocab_size, context, d_model, n_heads, n_layers, rows = configuration
    keep_freed_memory()
    tokens, targets = batch(configuration)

    def part(first: int, size: int) -> Batch:
        return Batch(tokens[first : first + size], targets[first : first + size])

    model = MiniGPT(vocab_size, context, d_model, n_heads, n_layers)
    optimizer = AdamW(model.parameters(), 1e-3, matrices_only=True)
    workers = min(threads, sensible_workers(rows, context, d_model, n_layers))
    gradient = BatchGradient(model, optimizer, Threads(workers), seed=0)

    def step() -> float:
        with one_thread_blas():
            loss, count = gradient(part, rows, 0)
            scaled_and_clipped(optimizer.gradients, count, 1.0)
            optimizer.step_flat()
        return float(loss / count)

    return step


def torch(configuration: tuple[int, ...], threads: int) -> Callable[[], Any]:
    import torch
    from gpt_torch import GPT, optimizer_of

    torch.set_num_threads(threads)
    tokens, targets = (torch.from_numpy(part) for part in batch(configuration))
    model = GPT(*configuration[:5])
    optimizer = optimizer_of(model, 1e-3, 0.01, fused=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def jax(configuration: tuple[int, ...], threads: int) -> Callable[[], Any]:
    from gpt_jax import stepper

    return stepper(*configuration[:5], *batch(configuration))


def child(name: str, configuration: str, threads: int) -> None:
    """Make as many steps as each line of the input says; answer with their seconds, wall and CPU."""
    sys.path.insert(0, str(HERE.parent / "peers"))
    step = globals()[name](CONFIGURATIONS[configuration], threads)
    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        wall, cpu = [], []
        for _ in range(int(line)):
            a, b = time.perf_counter(), time.process_time()
            step()
            cpu.append(time.process_time() - b)
            wall.append(time.perf_counter() - a)
        print(
            json.dumps({"wall": statistics.median(wall), "cpu": statistics.median(cpu), "peak": peak_memory()}),
            flush=True,
        )


def peak_memory() -> int | None:
    """The most resident memory of this process so far, in bytes (Linux)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)


# ---------------------------------------------------------------------------- taking turns


def measured(configuration: str, names: list[str], threads: int, quick: bool) -> dict[str, dict[str, float]]:
    """For each framework: median seconds of a step, wall and CPU, and peak memory."""
    rounds, steps = (2, 2) if quick else ROUNDS[configuration]
    environment = os.environ | {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    if threads == 1:
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    processes = {}
    for name in names:
        command = [sys.executable, __file__, "--child", name, configuration, str(threads)]
        processes[name] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )
    for process in processes.values():
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for i in range(rounds):
        for name in names[:: -1 if i % 2 else 1]:
            process = processes[name]
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{steps}\n")
            found[name].append(json.loads(process.stdout.readline()))
    for process in processes.values():
        process.communicate()
    return {name: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for name, rows in found.items()}


def products(configuration: str) -> float:
    """CPU seconds of a step's matrix products alone, on one thread: forward, and two more of each backward."""
    from tinygrad_attn.autodiff.blas import one_thread_blas

    vocab_size, T, d, heads, layers, rows = CONFIGURATIONS[configuration]
    n, d_k = rows * T, d // heads
    shapes = [(n, d, 3 * d), (n, d, d), (n, d, 4 * d), (n, 4 * d, d)] * layers + [(n, d, vocab_size)]
    with one_thread_blas():
        total = 0.0
        for shape in set(shapes):
            x, y, g = (np.ones(s, np.float32) for s in (shape[:2], shape[1:], shape[::2]))
            total += shapes.count(shape) * _seconds(lambda: (x @ y, g @ y.mT, x.mT @ g))
        q = np.ones((rows * heads, T, d_k), np.float32)
        p = np.ones((rows * heads, T, T), np.float32)
        one = _seconds(lambda: (q @ q.mT, p @ q))  # scores and mix; backward: scores again, dP; dV, dQ, dK
        return total + layers * one * 3.5 * (0.55 if T > 64 else 1.0)  # (of long rows the causal half is enough)


def _seconds(run: Callable[[], Any], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> None:
    from compare import Report

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds: the numbers mean little")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each framework (default: cores)"
    )
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: for machines with other work to do"
    )
    parser.add_argument("--only", default=",".join(CONFIGURATIONS), help="configurations, with commas")
    args = parser.parse_args()
    chosen = ["tiny", "seed"] if args.quick else args.only.split(",")
    names = ["ours", *[name for name in FRAMEWORKS[1:] if importlib.util.find_spec(name) is not None]]
    for name in set(FRAMEWORKS) - set(names):
        print(f"{name} is not installed: its rows are skipped")
    report, notes = Report(), []
    for configuration in chosen:
        found = measured(configuration, names, args.threads, args.quick)
        for name in names[1:]:
            if name in GOALS[configuration]:
                times = found["ours"][args.clock], found[name][args.clock]
                report.row(f"{configuration} {name}", *times, goal=GOALS[configuration][name])
        other = "cpu" if args.clock == "wall" else "wall"
        ratios = ", ".join(f"{name} {found[name][other] / found['ours'][other]:.2f}" for name in names[1:])
        peaks = ", ".join(f"{name} {found[name]['peak'] / 2**20:.0f}" for name in names if found[name]["peak"])
        share = products(configuration) / found["ours"]["cpu"]
        notes.append(f"{configuration}: by {other} time {ratios}; products {share:.0%} of our step; peak MiB {peaks}")
    print("\n".join(notes))
    report.finish(args.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
