"""``tinygrad-attn train TASK``: a small GPT learns a task or a text; the run can be stopped and goes on bit for bit."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..files.errors import UserError, as_user_error
from ..train.ranks import launched, world
from ..train.run import Interrupted
from ..train.rundir import RunDirectory
from ..train.settings import TASKS
from .output import console
from .shared_arguments import flag, switch
from .train_ranks import train_together
from .training import FLAGS, prepared, train_and_finish

KINDS = {"int": (int, "N"), "float": (float, "X"), "str": (str, "WORD")}  # the type of a setting, as a flag


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", choices=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    flag(parser, "--out", "the run's folder (default runs/TASK)", Path, "DIR")
    switch(parser, "--resume", "go on from the last checkpoint in the folder, bit for bit")
    flag(parser, "--workers", "threads that share each batch (default: by size and cores)")
    switch(parser, "--mpi", "share each batch over MPI (done unasked under mpirun or srun)")
    flag(parser, "--device", "cpu, cuda or cuda:N", str, "DEVICE", "cpu")
    meters = "every N steps read how saturated each head is, into meters.jsonl; an alarm when one dies"
    flag(parser, "--meters", meters)
    switch(parser, "--quiet", "write the files and print nothing")
    for setting in FLAGS:
        suits = "" if setting.default is None else f" (default {setting.default}, or what suits the task)"
        kind, metavar = KINDS[str(setting.type).removesuffix(" | None")]
        flag(parser, f"--{setting.name.replace('_', '-')}", setting.metadata["meaning"] + suits, kind, metavar)


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
    directory = RunDirectory(arguments.out or Path("runs") / arguments.task)
    if ranks is not None:
        return train_together(arguments, directory, ranks)
    screen = console(arguments.quiet)
    try:
        with directory.locked():
            train_and_finish(arguments, screen, directory, prepared(arguments, directory))
    except Interrupted as note:
        screen.print(str(note))
        return 130
    screen.print(f"{time.perf_counter() - started:.0f} s.", style="dim")
    return 0
