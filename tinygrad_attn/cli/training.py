"""What a training does from the command line, alone or as one of many ranks: begin or go on, show, finish."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

from rich.console import Console

from ..files.errors import UserError, as_user_error
from ..train.loop import Trainer
from ..train.ranks import Ranks
from ..train.run import train_in
from ..train.rundir import RunDirectory
from ..train.settings import Settings, preset, task_of
from ..train.workers import Threads, sensible_workers
from .attend import heads_of, row_of
from .output import can_draw, progress
from .sample import sampled

FLAGS = [field for field in fields(Settings) if "meaning" in field.metadata]


def prepared(arguments: argparse.Namespace, directory: RunDirectory, ranks: Ranks | None = None) -> Trainer:
    """A trainer for a new run, or for the one in the folder, where its last checkpoint stood.

    With `ranks`: the same on every one, with the weights of rank 0.  Errors: UserError."""
    if ranks is None:
        trainer = _trainer(arguments, _saved(arguments, directory))
        _begin_or_resume(arguments, directory, trainer)
        return trainer
    ranks.same({"task": arguments.task, "--resume": arguments.resume, "--workers": arguments.workers})
    saved = ranks.first_does(lambda: _saved(arguments, directory))
    trainer = ranks.all_do(lambda: _trainer(arguments, saved, ranks))
    ranks.same(asdict(trainer.settings) | {"--device": trainer.device.partition(":")[0]})
    ranks.first_does(lambda: _begin_or_resume(arguments, directory, trainer))
    ranks.follow_first(trainer.optimizer)
    trainer.step, trainer.best = ranks.first_does(lambda: (trainer.step, trainer.best))
    return trainer


def _saved(arguments: argparse.Namespace, directory: RunDirectory) -> Settings | None:
    """The settings of the run in the folder, to go on with; None for a new run.  Errors: RunError."""
    if not arguments.resume:
        if directory.exists:
            directory.begin(Settings(arguments.task))  # raises: it holds a run
        return None
    if arguments.workers is None:
        arguments.workers = directory.workers()  # with another number, sums round differently
    return directory.settings()


def _trainer(arguments: argparse.Namespace, saved: Settings | None, ranks: Ranks | None = None) -> Trainer:
    """A trainer at its first step.  What was asked for must agree with `saved`.  Errors: UserError."""
    for name in ("workers", "meters"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UserError(f"--{name}: expected at least 1, got {value}")
    asked = {flag.name: value for flag in FLAGS if (value := getattr(arguments, flag.name)) is not None}
    differ = []
    for name, value in {"task": arguments.task, **asked}.items():
        if saved is not None and value != (theirs := getattr(saved, name)):
            differ.append(f"{name} {value!r} (the run has {theirs!r})")
    if differ:
        raise UserError(f"--resume goes on with the settings of the run; asked for {', '.join(differ)}")
    with as_user_error(ValueError, OSError, RuntimeError):
        s, task = task_of(preset(arguments.task, **asked) if saved is None else saved)
        threads = arguments.workers or sensible_workers(s.batch, s.context, s.d_model, s.n_layers)
        return Trainer(s, task, ranks or Threads(threads), arguments.device)


def _begin_or_resume(arguments: argparse.Namespace, directory: RunDirectory, trainer: Trainer) -> None:
    """Errors: UserError."""
    if arguments.resume:
        directory.resume(trainer)
    else:
        directory.begin(trainer.settings, trainer.workers.count)


def train_and_finish(arguments: argparse.Namespace, screen: Console, directory: RunDirectory, trainer: Trainer) -> None:
    """Train to the end inside ``directory.locked()`` and write down what a person looks at."""
    recorder = _metered(arguments.meters, screen, directory, trainer)
    screen.print(_headline(trainer))
    with _shown(screen, trainer, recorder) as show:
        train_in(directory, trainer, show)
    _finish(screen, directory, trainer)


def _metered(every: int | None, screen: Console, directory: RunDirectory, trainer: Trainer) -> Any:
    """The recorder that --meters asks for, around each gradient; or None."""
    if every is None:
        return None
    from ..probe import Recorder

    path = directory.path / "meters.jsonl"
    recorder = Recorder(trainer.model, path, every, on_alarm=lambda alarm: screen.print(str(alarm)))
    trainer.each_gradient_in = recorder.at
    return recorder


def _headline(trainer: Trainer) -> str:
    s, count = trainer.settings, sum(p.size for p in trainer.model.parameters())
    rows = f"{s.batch} rows of {s.context} tokens a step"
    text = f"{s.task}: {count:,} parameters, {rows}, {trainer.workers.count} worker(s)"
    if trainer.step == s.steps:
        return f"{text}: all {s.steps} steps are done"
    return text + (f", on from step {trainer.step}" if trainer.step else "")


@contextmanager
def _shown(screen: Console, trainer: Trainer, recorder: Any) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A progress bar in a terminal, with a row for each head under it; a line for each look at the held-out rows
    everywhere (and the heads, where there is no bar)."""
    first, metered = trainer.step, 0
    started = time.perf_counter()
    with progress(screen, "training", trainer.settings.steps) as update:

        def show(row: dict[str, Any]) -> None:
            nonlocal metered
            done, heads = row["step"], None
            if recorder is not None and len(recorder.rows) > metered:
                heads, metered = recorder.table(), len(recorder.rows)
            left = (time.perf_counter() - started) / max(done - first, 1) * (trainer.settings.steps - done)
            speed = f"{row['tokens_per_second']:,.0f} tokens/s"
            update(done, f"loss {row['loss']:.4f}  {timedelta(seconds=round(left))} left  {speed}", heads)
            if "held_out_loss" in row:
                exact = f", {row['held_out_accuracy']:.1%} of rows all right" if trainer.task.exact else ""
                screen.print(f"step {done}: loss {row['loss']:.4f}; held out {row['held_out_loss']:.4f}{exact}")
                if recorder is not None and recorder.rows and not screen.is_terminal:
                    screen.print(recorder.table())

        yield show


def _finish(screen: Console, directory: RunDirectory, trainer: Trainer) -> None:
    """What a person looks at in the end: results, a sample, the loss curve, the attention on one row."""
    rows, folder, model, task = directory.measured(), directory.path, trainer.model, trainer.task
    text = sampled(model, task)
    (folder / "sample.txt").write_text(text + "\n", encoding="utf-8")
    last = next((row for row in reversed(rows) if "held_out_loss" in row), None)
    if last is None:
        raise UserError(
            f"{folder / 'metrics.jsonl'} has no line with held_out_loss any more; the checkpoints are whole"
        )
    results = {"steps": trainer.step, "best_held_out_loss": trainer.best}
    results.update({name: last[name] for name in ("loss", "held_out_loss", "held_out_accuracy")})
    (folder / "summary.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    screen.print(f"\n{text}\n", markup=False)
    if can_draw(screen):
        from ..show.training import heads_picture, loss_picture

        loss_picture(rows).savefig(folder / "loss.png")
        heads_picture(*heads_of(model, task, task.decode(row_of(task)))).savefig(folder / "attention.png")
    screen.print(f"Written to {folder}")
