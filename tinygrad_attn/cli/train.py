"""``tinygrad-attn train TASK``: a small GPT learns a task or a text; the run can be stopped and goes on bit for bit."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from ..files.errors import UserError, as_user_error
from ..train.loop import Trainer
from ..train.ranks import launched, world
from ..train.run import Interrupted, train_in
from ..train.rundir import RunDirectory
from ..train.settings import TASKS, Settings, preset, task_of
from ..train.workers import Threads, Workers, sensible_workers
from .output import can_draw, console, progress

# flag, type, help; a flag's name is that of a setting
FLAGS: tuple[tuple[str, type, str], ...] = (
    ("steps", int, "how many steps"),
    ("batch", int, "rows in a step, over all workers"),
    ("lr", float, "highest learning rate of AdamW"),
    ("seed", int, "of the task, the weights, the rows and dropout"),
    ("warmup", int, "steps until the highest learning rate"),
    ("weight-decay", float, "decay of the matrices"),
    ("clip", float, "largest gradient norm"),
    ("dropout", float, "rate of dropout"),
    ("accumulate", int, "parts in which a worker takes its share, to save memory"),
    ("context", int, "characters in a row of `text`"),
    ("d-model", int, "width of the model"),
    ("n-heads", int, "attention heads in a layer"),
    ("n-layers", int, "layers"),
    ("dtype", str, "float32 or float64"),
    ("text", str, "train `text` on this UTF-8 file (default: Python's own language reference)"),
    ("eval-every", int, "steps between looks at held-out rows"),
    ("save-every", int, "steps between checkpoints"),
    ("keep", int, "how many checkpoints to keep, besides the best"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", choices=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (default runs/TASK)")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint in the folder, bit for bit"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="threads that share each batch (default: by size and cores)"
    )
    parser.add_argument(
        "--mpi", action="store_true", help="share each batch over MPI (done unasked under mpirun or srun)"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default cpu)")
    meters = "every N steps read how saturated each head is, into meters.jsonl; an alarm when one dies"
    parser.add_argument("--meters", type=int, metavar="N", help=meters)
    parser.add_argument("--quiet", action="store_true", help="write the files and print nothing")
    defaults = {field.name: field.default for field in fields(Settings)}
    for flag, kind, text in FLAGS:
        default = defaults[flag.replace("-", "_")]
        text += "" if default is None else f" (default {default}, or what suits the task)"
        parser.add_argument(f"--{flag}", type=kind, metavar={int: "N", float: "X", str: "WORD"}[kind], help=text)


def run(arguments: argparse.Namespace) -> int:
    started = time.perf_counter()
    try:
        with as_user_error(ValueError):
            ranks = world(arguments.mpi, arguments.workers or 1)
    except UserError:
        if (launched() or (0, 0))[1]:
            time.sleep(2.0)  # rank 0 says it, before the launcher stops everybody because one has left
            return 2
        raise
    if ranks is not None:
        from .train_ranks import train_together

        return train_together(arguments, ranks)
    screen, directory = console(arguments.quiet), RunDirectory(arguments.out or Path("runs") / arguments.task)
    try:
        with directory.locked():
            trainer = _prepared(arguments, directory)
            recorder = metered(arguments, screen, directory, trainer)
            train_and_finish(screen, directory, trainer, recorder)
    except Interrupted as note:
        screen.print(str(note))
        return 130
    screen.print(f"{time.perf_counter() - started:.0f} s.", style="dim")
    return 0


def train_and_finish(screen: Console, directory: RunDirectory, trainer: Trainer, recorder: Any = None) -> None:
    """Train to the end inside ``directory.locked()`` and write down what a person looks at."""
    screen.print(_headline(trainer))
    with _shown(screen, trainer, recorder) as show:
        train_in(directory, trainer, show)
    _finish(screen, directory, trainer)


def metered(arguments: argparse.Namespace, screen: Console, directory: RunDirectory, trainer: Trainer) -> Any:
    """The recorder that --meters asks for, around each gradient; or None."""
    if arguments.meters is None:
        return None
    from ..probe import Recorder

    path = directory.path / "meters.jsonl"
    recorder = Recorder(trainer.model, path, arguments.meters, on_alarm=lambda alarm: screen.print(str(alarm)))
    trainer.each_gradient_in = recorder.at
    return recorder


def _prepared(arguments: argparse.Namespace, directory: RunDirectory) -> Trainer:
    """A trainer for a new run, or for the one in the folder, where its last checkpoint stood."""
    saved = saved_settings(arguments, directory)
    if saved is not None and arguments.workers is None:
        arguments.workers = directory.workers()  # with another number, sums round differently
    with as_user_error(ValueError, OSError, RuntimeError):
        trainer = trainer_for(arguments, saved)
    begin_or_resume(directory, trainer, arguments.resume)
    return trainer


def saved_settings(arguments: argparse.Namespace, directory: RunDirectory) -> Settings | None:
    """The settings of the run in the folder, to go on with; None for a new run.  Errors: RunError."""
    if arguments.resume:
        return directory.settings()
    if directory.exists:
        directory.begin(Settings(arguments.task))  # raises: it holds a run
    return None


def trainer_for(arguments: argparse.Namespace, saved: Settings | None, workers: Workers | None = None) -> Trainer:
    """A trainer at its first step.  What was asked for must agree with `saved`.

    Errors: ValueError, OSError (of a text), RuntimeError (of a device), UserError."""
    for name in ("workers", "meters"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UserError(f"--{name}: expected at least 1, got {value}")
    asked = {name: getattr(arguments, name) for name in (flag.replace("-", "_") for flag, _, _ in FLAGS)}
    asked = {name: value for name, value in asked.items() if value is not None}
    if saved is None:
        s, task = task_of(preset(arguments.task, **asked))
    else:
        differ = [f"{name} {value!r} (the run has {kept!r})" for name, value in {"task": arguments.task, **asked}.items()
                  if value != (kept := getattr(saved, name))]  # fmt: skip
        if differ:
            raise UserError(f"--resume goes on with the settings of the run; asked for {', '.join(differ)}")
        s, task = task_of(saved)
    if workers is None:
        workers = Threads(arguments.workers or sensible_workers(s.batch, s.context, s.d_model, s.n_layers))
    return Trainer(s, task, workers, arguments.device)


def begin_or_resume(directory: RunDirectory, trainer: Trainer, resume: bool) -> None:
    """Errors: RunError, CheckpointError."""
    if resume:
        directory.resume(trainer)
    else:
        directory.begin(trainer.settings, trainer.workers.count)


def _headline(trainer: Trainer) -> str:
    s, count = trainer.settings, sum(p.size for p in trainer.model.parameters())
    text = f"{s.task}: {count:,} parameters, {s.batch} rows of {s.context} tokens a step, {trainer.workers.count} worker(s)"
    if trainer.step == s.steps:
        return f"{text}: all {s.steps} steps are done"
    return text + (f", on from step {trainer.step}" if trainer.step else "")


@contextmanager
def _shown(screen: Console, trainer: Trainer, recorder: Any = None) -> Iterator[Callable[[dict[str, Any]], None]]:
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
    from .attend import heads_of, row_of
    from .sample import sampled

    rows = directory.measured()
    last = next(row for row in reversed(rows) if "held_out_loss" in row)
    prompt = trainer.task.decode(row_of(trainer.task))
    temperature = 0.0 if trainer.task.exact else 0.8
    text = sampled(trainer.model, trainer.task, prompt, trainer.task.answers, temperature, None, seed=0)
    (directory.path / "sample.txt").write_text(text + "\n", encoding="utf-8")
    results = {"steps": trainer.step, "best_held_out_loss": trainer.best}
    results.update({name: last[name] for name in ("loss", "held_out_loss", "held_out_accuracy")})
    (directory.path / "summary.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    screen.print(f"\n{text}\n", markup=False)
    if can_draw(screen):
        from ..show.training import heads_picture, loss_picture

        loss_picture(rows).savefig(directory.path / "loss.png")
        weights, words = heads_of(trainer.model, trainer.task, prompt)
        heads_picture(weights, words).savefig(directory.path / "attention.png")
    screen.print(f"Written to {directory.path}")
