"""Arguments that commands share: options, a run's model and task, the loss that inspect, step and doctor ask about."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..autodiff.ops.loss import cross_entropy
from ..autodiff.tensor import Tensor
from ..files.errors import as_user_error
from ..lab.words import LANGUAGES
from ..nn import MiniGPT
from ..tasks.letters import Batch, Task
from ..train.load_run import trained


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} upward, got {text!r}")
        return int(text)

    return number


def flag(
    parser: argparse.ArgumentParser, name: str, meaning: str, kind: Any = int, metavar: str = "N", default: Any = None
) -> None:
    """An option with a value: ``--seed N``.  Its default, where it has one, stands in the help."""
    text = meaning if default is None else f"{meaning} (default {default})"
    parser.add_argument(name, type=kind, metavar=metavar, default=default, help=text)


def switch(parser: argparse.ArgumentParser, name: str, meaning: str) -> None:
    parser.add_argument(name, action="store_true", help=meaning)


def add_language(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="language of what is written (default en)")


def add_model(parser: argparse.ArgumentParser) -> None:
    folder = "a run's folder; without: a model trained now"
    parser.add_argument("run_folder", nargs="?", type=Path, metavar="RUN", help=folder)


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="the folder of a run")
    switch(parser, "--last", "the last checkpoint instead of the best")


def run_of(arguments: argparse.Namespace) -> tuple[MiniGPT, Task]:
    """The model and the task of the run.  Errors: UserError where there is no such run, or no checkpoint."""
    with as_user_error(ValueError, OSError):
        return trained(arguments.run_folder, best=not arguments.last)


def add_question(parser: argparse.ArgumentParser, rows: int = 16) -> None:
    add_run(parser)
    sentence = "tokens of the task; the loss is that of each next token (default: held-out rows)"
    flag(parser, "--sentence", sentence, str, "TEXT")
    flag(parser, "--rows", "how many held-out rows", default=rows)


def asked(arguments: argparse.Namespace) -> tuple[MiniGPT, Callable[[], Tensor]]:
    """The model of the run, and a function that makes its loss on the sentence or the held-out rows.

    Errors: UserError where there is no such run, no checkpoint, or the sentence does not fit."""
    model, task = run_of(arguments)
    with as_user_error(ValueError):
        tokens, targets = batch_of(task, arguments.sentence, arguments.rows)
    return model, lambda: cross_entropy(model(tokens), targets)


def batch_of(task: Task, sentence: str | None, rows: int) -> Batch:
    """Tokens (rows, T) and the tokens to predict.  Errors: ValueError for a sentence that is too short or unknown."""
    if rows < 1:
        raise ValueError(f"--rows: expected at least 1, got {rows}")
    if sentence is None:
        held_out = task.held_out()
        return Batch(held_out.tokens[:rows], held_out.targets[:rows])
    tokens = task.encode(sentence)
    if not 2 <= len(tokens) <= task.context + 1:
        raise ValueError(f"expected 2 to {task.context + 1} tokens, got {len(tokens)}: each predicts the next")
    return Batch(tokens[None, :-1], np.ascontiguousarray(tokens[None, 1:]))
