"""What inspect, step and doctor share: a run's model, and the loss that they ask about."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..autodiff.ops.loss import cross_entropy
from ..autodiff.tensor import Tensor
from ..files.errors import as_user_error
from ..nn import MiniGPT
from ..tasks.letters import Batch, Task
from ..train.load_run import trained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--sentence", help="tokens of the task; the loss is that of each next token (default: held-out rows)"
    )
    parser.add_argument("--rows", type=int, default=16, help="how many held-out rows (default 16)")
    parser.add_argument("--last", action="store_true", help="the last checkpoint instead of the best")


def asked(arguments: argparse.Namespace) -> tuple[MiniGPT, Callable[[], Tensor]]:
    """The model of the run, and a function that makes its loss on the sentence or the held-out rows.

    Errors: UserError where there is no such run, no checkpoint, or the sentence does not fit."""
    with as_user_error(ValueError, OSError):
        model, task = trained(arguments.run_folder, best=not arguments.last)
        tokens, targets = batch_of(task, arguments.sentence, arguments.rows)

    def loss() -> Tensor:
        logits = model(tokens)
        return cross_entropy(logits, targets)

    return model, loss


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
