"""``mpirun -n N tinygrad-attn train``: all ranks make the steps, rank 0 shows them and writes to the run's folder."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack

from ..train.loop import NotFinite
from ..train.ranks import Disagree, Ranks
from ..train.run import Interrupted, follow
from ..train.rundir import RunDirectory
from ..train.versions import code
from .output import console
from .training import prepared, train_and_finish


def train_together(arguments: argparse.Namespace, directory: RunDirectory, ranks: Ranks) -> int:
    """Train on all ranks; gives the exit code of this one.

    After an error that all ranks know of, each ends by itself.  After any other, the others would wait for this rank's
    sums for ever: so it ends the whole job."""
    started, first = time.perf_counter(), ranks.number == 0
    screen = console(arguments.quiet or not first, plain=not _launcher_has_terminal())

    def say(what: str) -> None:
        print(f"tinygrad-attn train: {what}", file=sys.stderr, flush=True)

    try:
        with ExitStack() as held:
            ranks.same(code())
            ranks.first_does(lambda: held.enter_context(directory.locked()))
            trainer = prepared(arguments, directory, ranks)
            if first:  # (its meters see its own share of the rows)
                train_and_finish(arguments, screen, directory, trainer)
            else:
                follow(trainer)
        screen.print(f"{time.perf_counter() - started:.0f} s.", style="dim")
        exit_code = 0
    except (Disagree, NotFinite) as error:
        if first:
            say(str(error))
        exit_code = 2
    except Interrupted as note:
        screen.print(str(note))
        exit_code = 130
    except BaseException as error:
        what = str(error) if isinstance(error, Exception) else "interrupted"
        say(f"rank {ranks.number}: {what or type(error).__name__}")
        ranks.abort(2 if isinstance(error, Exception) else 130)
        raise
    ranks.wait()
    return exit_code


def _launcher_has_terminal() -> bool:
    """Open MPI always gives its ranks a pseudo-terminal: look at the output of the launcher, which is our parent."""
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:  # no Linux, or not ours to look at
        return sys.stdout.isatty()
