"""``tinygrad-attn attend RUN "a sentence"``: where each head of a trained model looks, as text and as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ..autodiff.mode import no_grad, watching
from ..autodiff.tensor import Tensor
from ..files.errors import UserError, as_user_error
from ..nn import MiniGPT
from ..show.matrix import ASCII_SHADES, SHADES, matrix_text
from ..tasks.letters import Ints, Task
from .output import can_draw, console
from .shared_arguments import add_run, flag, run_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    sentence = 'tokens of the task, such as "I work , you work , he ___"; of `text`: any text'
    parser.add_argument("sentence", help=sentence)
    flag(parser, "--out", "the picture (default RUN/attend.png)", Path, "FILE")


def run(arguments: argparse.Namespace) -> int:
    screen = console()
    model, task = run_of(arguments)
    with as_user_error(ValueError):
        weights, words = heads_of(model, task, arguments.sentence)
    shades = SHADES if screen.encoding.startswith("utf") else ASCII_SHADES
    for layer, head in np.ndindex(*weights.shape[:2]):
        screen.print(f"\nlayer {layer}, head {head}   (row: who looks; column: at whom)", style="bold")
        for line in matrix_text(weights[layer, head], words, shades):
            screen.print(line, markup=False, no_wrap=True, overflow="crop")
    screen.print()
    if can_draw(screen):
        from ..show.training import heads_picture

        path = arguments.out or arguments.run_folder / "attend.png"
        with as_user_error(OSError, doing=f"cannot write {path}"):
            heads_picture(weights, words).savefig(path)
        screen.print(f"Written to {path}")
    return 0


def heads_of(model: MiniGPT, task: Task, sentence: str) -> tuple[np.ndarray, list[str]]:
    """Attention weights of every head, (layers, heads, n, n), and the n tokens as words.

    Errors: UserError for an empty sentence; ValueError for one longer than the context, or unknown tokens."""
    tokens = task.encode(sentence)
    if not len(tokens):
        raise UserError("expected a sentence of at least one token")
    found: list[np.ndarray] = []

    def watch(path: str, tensor: Tensor) -> None:
        if path.endswith(".attn.weights"):
            found.append(tensor.numpy()[0])  # (heads, n, n)

    model.eval()
    with no_grad(), watching(watch):
        model(tokens[None])
    return np.stack(found), [printable(task.vocabulary[i]) for i in tokens]


def printable(token: str) -> str:
    """A token as it can stand in a table or a picture.

    >>> printable("he"), printable(chr(10)), printable(chr(0))
    ('he', '\\\\n', '\\\\x00')
    """
    return token if token.isprintable() else repr(token)[1:-1]


def row_of(task: Task) -> Ints:
    """The tokens of a row to show: of letters, the question alone; of a text, its first 32 characters."""
    tokens, targets = task.held_out()
    asked = np.flatnonzero(targets[0] >= 0)[0]
    return tokens[0, : asked + 1] if task.exact and task.between and asked else tokens[0, :32]
