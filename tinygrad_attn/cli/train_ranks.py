"""``mpirun -n N tinygrad-attn train``: all ranks make the steps, rank 0 shows them and writes to the run's folder."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from ..train.loop import NotFinite, Trainer
from ..train.ranks import Disagree, Ranks
from ..train.run import Interrupted, follow
from ..train.rundir import RunDirectory
from ..train.versions import code
from .output import console
from .train import begin_or_resume, metered, saved_settings, train_and_finish, trainer_for


def train_together(arguments: argparse.Namespace, ranks: Ranks) -> int:
    """What ``train.run`` does, by all ranks.  The exit code of this one.

    An error that all ranks know of ends each by itself.  Any other would leave the others waiting for this rank's
    sums for ever: it ends the whole job."""
    started, first = time.perf_counter(), ranks.number == 0
    screen = console(arguments.quiet or not first, plain=not _launcher_has_terminal())
    directory = RunDirectory(arguments.out or Path("runs") / arguments.task)
    try:
        with ExitStack() as held:
            ranks.same(code())
            ranks.first_does(lambda: held.enter_context(directory.locked()))
            trainer = _prepared(arguments, directory, ranks)
            if first:  # (its own share of the rows is what its meters read)
                train_and_finish(screen, directory, trainer, metered(arguments, screen, directory, trainer))
            else:
                follow(trainer)
    except (Disagree, NotFinite) as error:
        if first:
            print(f"tinygrad-attn train: {error}", file=sys.stderr, flush=True)
        ranks.wait()
        return 2
    except Interrupted as note:
        screen.print(str(note))
        ranks.wait()
        return 130
    except BaseException as error:
        what = str(error) if isinstance(error, Exception) else "interrupted"
        print(f"tinygrad-attn train: rank {ranks.number}: {what or type(error).__name__}", file=sys.stderr, flush=True)
        ranks.abort(2 if isinstance(error, Exception) else 130)
        raise
    screen.print(f"{time.perf_counter() - started:.0f} s.", style="dim")
    ranks.wait()
    return 0


def _launcher_has_terminal() -> bool:
    """Open MPI gives its ranks a pseudo-terminal, whatever its own output is; so look at the launcher's, our parent's."""
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:  # no Linux, or not ours to look at
        return sys.stdout.isatty()


def _prepared(arguments: argparse.Namespace, directory: RunDirectory, ranks: Ranks) -> Trainer:
    """The same trainer on every rank, at the same step, with the weights of rank 0.  Errors: Disagree."""
    arguments_alike = {"task": arguments.task, "--resume": arguments.resume, "--workers": arguments.workers}
    ranks.same(arguments_alike)
    saved = ranks.first_does(lambda: saved_settings(arguments, directory))
    trainer = ranks.all_do(lambda: trainer_for(arguments, saved, ranks))
    ranks.same(asdict(trainer.settings) | {"--device": trainer.device.partition(":")[0]})
    ranks.first_does(lambda: begin_or_resume(directory, trainer, arguments.resume))
    ranks.follow_first(trainer.optimizer)
    trainer.step, trainer.best = ranks.first_does(lambda: (trainer.step, trainer.best))
    return trainer
