"""``tinygrad-attn attend RUN "a sentence"``: where each head of a trained model looks, as text and as a picture."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from rich.cells import cell_len

from ..autodiff.mode import no_grad, watching
from ..autodiff.tensor import Tensor
from ..nn import MiniGPT
from ..tasks.letters import Ints, Task
from ..train.checkpoint import CheckpointError
from ..train.load_run import trained
from ..train.rundir import RunError
from .main import CommandError
from .output import console

SHADES, ASCII_SHADES = " ░▒▓█", " .:*#"  # a weight's fifth of [0, 1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "sentence", help='tokens of the task, such as "I work , you work , he ___"; of `text`: any text'
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the picture (default RUN/attend.png)")
    parser.add_argument("--last", action="store_true", help="the last checkpoint instead of the best")


def run(arguments: argparse.Namespace) -> int:
    screen = console()
    try:
        model, task = trained(arguments.run_folder, best=not arguments.last)
        weights, words = heads_of(model, task, arguments.sentence)
    except (RunError, CheckpointError, ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    for (layer, head), matrix in np.ndenumerate(np.empty(weights.shape[:2])):
        del matrix
        screen.print(f"\nlayer {layer}, head {head}   (row: who looks; column: at whom)", style="bold")
        for line in drawn(weights[layer, head], words, SHADES if screen.encoding.startswith("utf") else ASCII_SHADES):
            screen.print(line, markup=False, no_wrap=True, overflow="crop")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        screen.print("\nNo picture: it needs matplotlib (pip install matplotlib, or this package with [viz]).")
        return 0
    from ..show.training import heads_picture

    path = arguments.out or arguments.run_folder / "attend.png"
    try:
        heads_picture(weights, words).savefig(path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error
    screen.print(f"\nWritten to {path}")
    return 0


def heads_of(model: MiniGPT, task: Task, sentence: str) -> tuple[np.ndarray, list[str]]:
    """Attention weights of every head, (layers, heads, n, n), and the n tokens as words.

    Errors: ValueError for an empty sentence, one longer than the context, or unknown tokens."""
    tokens = task.encode(sentence)
    if not len(tokens):
        raise ValueError("expected a sentence of at least one token")
    found: dict[int, np.ndarray] = {}

    def watch(path: str, tensor: Tensor) -> None:
        place = re.fullmatch(r"blocks\.(\d+)\.attn\.weights", path)
        if place:
            found[int(place[1])] = tensor.numpy()[0]  # (heads, n, n)

    model.eval()
    with no_grad(), watching(watch):
        model(tokens[None])
    return np.stack([found[layer] for layer in sorted(found)]), [printable(task.vocabulary[i]) for i in tokens]


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


def drawn(weights: np.ndarray, words: list[str], shades: str = SHADES) -> list[str]:
    """One head's weights (n, n) as lines of shades: a darker cell is a larger weight.

    >>> for line in drawn(np.array([[1.0, 0.0], [0.3, 0.7]]), ["he", "___"]):
    ...     print(line)
     he ██
    ___ ░░▓▓
    """
    width = max(map(cell_len, words))  # of the terminal's cells: an emoji takes two
    level = np.minimum((weights * len(shades)).astype(int), len(shades) - 1)
    return [
        f"{' ' * (width - cell_len(word))}{word} {''.join(2 * shades[i] for i in row)}".rstrip()
        for word, row in zip(words, level)
    ]
