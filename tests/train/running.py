"""Small runs for the tests: here, in a process of their own, by the command; and what they left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_attn.train.checkpoint import load
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import Settings, task_of
from tinygrad_attn.train.workers import Threads

SMALL: dict[str, Any] = {"d_model": 8, "n_heads": 1, "n_layers": 1, "batch": 4, "dropout": 0.1, "warmup": 2}

RUN = """
import sys
from pathlib import Path
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import Settings, task_of
from tinygrad_attn.train.workers import Threads
import json
directory, settings = RunDirectory(Path(sys.argv[1])), Settings(**json.loads(sys.argv[2]))
with directory.locked():
    trainer = Trainer(*task_of(settings), Threads(int(sys.argv[3])))
    directory.resume(trainer) if directory.exists else directory.begin(trainer.settings)
    train_in(directory, trainer)
"""


def start(folder: Path, settings: Settings, workers: int = 1) -> subprocess.Popen[bytes]:
    """A process that trains in `folder`, from its last checkpoint if there is one."""
    return subprocess.Popen([sys.executable, "-c", RUN, str(folder), json.dumps(settings.to_dict()), str(workers)])


def undisturbed(folder: Path, settings: Settings, workers: int = 1) -> Trainer:
    directory = RunDirectory(folder)
    with directory.locked():
        trainer = Trainer(*task_of(settings), Threads(workers))
        directory.begin(trainer.settings)
        train_in(directory, trainer)
    return trainer


def results(folder: Path) -> tuple[list[tuple[Any, ...]], dict[str, np.ndarray]]:
    """What a run measured, step by step, and its last weights and moments."""
    directory = RunDirectory(folder)
    names = ("step", "loss", "norm", "lr", "held_out_loss")
    last = directory.last()
    assert last is not None
    return [tuple(row.get(name) for name in names) for row in directory.measured()], load(last)[0]


def equal(a: Path, b: Path) -> None:
    (rows, tensors), (other_rows, other_tensors) = results(a), results(b)
    assert rows == other_rows
    assert tensors.keys() == other_tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(tensors[name], other_tensors[name])


def wait_for_step(folder: Path, process: subprocess.Popen[bytes], more: int, seconds: float = 60.0) -> None:
    """Until metrics.jsonl has `more` lines more than now (or the process has ended)."""
    path = folder / "metrics.jsonl"

    def lines() -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    first, deadline = lines(), time.monotonic() + seconds
    while lines() < first + more and process.poll() is None:
        assert time.monotonic() < deadline, "no step was made"
        time.sleep(0.003)


def command(folder: Path, *more: str, **popen: Any) -> subprocess.Popen[str]:
    flags = ["--d-model", "8", "--n-heads", "1", "--n-layers", "1", "--batch", "4", "--out", str(folder), *more]
    return subprocess.Popen([sys.executable, "-m", "tinygrad_attn", "train", "copy", *flags], text=True, **popen)
