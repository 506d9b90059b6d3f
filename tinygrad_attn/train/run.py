"""One run in its folder, from its first step or its last checkpoint to its end, and what interrupts it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..files.stop import on_stop
from .events import event_writer
from .loop import LOOK_EVERY, NotFinite, Report, Trainer
from .rundir import RunDirectory

Show = Callable[[dict[str, Any]], None]  # called with each step's line of metrics.jsonl


class Interrupted(Exception):
    """Ctrl-C: the step was finished and a checkpoint saved."""


def train_in(directory: RunDirectory, trainer: Trainer, show: Show = lambda row: None) -> None:
    """Train to the end inside ``directory.locked()``: metrics of each step, checkpoints when they are due.

    On a GPU a step's numbers are read when somebody looks: reading each at once would wait for each step.

    Errors: Interrupted after Ctrl-C; NotFinite; CheckpointError."""
    s, started, first = trainer.settings, time.perf_counter(), trainer.step
    unread: list[Report] = []

    def read() -> list[dict[str, Any]]:
        speed = (trainer.step - first) * s.batch * s.context / (time.perf_counter() - started)
        rows = [write(each, speed) for each in unread]
        unread.clear()
        for row in rows:
            event(row)
        return rows

    stop = threading.Event()
    with on_stop(stop.set), directory.metrics() as write, event_writer(directory.path, trainer.step) as event:
        best = trainer.best
        try:
            for report in trainer.steps():
                unread.append(report)
                stopping = trainer.workers.agreed(stop.is_set(), report.norm)
                is_best, best = trainer.best < best, trainer.best
                saving = is_best or report.step % s.save_every == 0 or report.step == s.steps or stopping
                look = trainer.device == "cpu" or report.evaluation is not None or report.step % LOOK_EVERY == 0
                rows = read() if look or saving else []
                if saving:
                    directory.save(trainer, is_best)
                for row in rows:  # after the checkpoint: a reader that has left costs no step
                    show(row)
                if stopping and report.step < s.steps:
                    raise Interrupted(f"stopped after step {report.step}; go on with --resume")
        except NotFinite:
            for row in read():  # those steps went well
                show(row)
            raise


def follow(trainer: Trainer) -> None:
    """``train_in`` for a process whose steps another one writes down.  Errors: Interrupted; NotFinite."""
    stop = threading.Event()
    with on_stop(stop.set):
        for report in trainer.steps():
            if trainer.workers.agreed(stop.is_set(), report.norm) and report.step < trainer.settings.steps:
                raise Interrupted
