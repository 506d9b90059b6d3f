"""What commands share about their output: a console, a progress bar, a folder to write to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..files.errors import UserError, as_user_error, needs
from ..tasks.reader import STEPS


def console(quiet: bool = False, plain: bool = False) -> Console:
    """A console that prints colours to a terminal, plain text to a pipe or a file, and nothing when quiet.
    plain: treat the output as a file, though it looks like a terminal."""
    terminal = False if plain else None  # None: rich finds out
    # (markup eats a path's [brackets])
    screen = Console(quiet=quiet, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    screen.soft_wrap = not screen.is_terminal and "COLUMNS" not in os.environ  # a pipe has no width: lines stay whole
    return screen


@contextmanager
def progress(on: Console, what: str, total: int) -> Iterator[Callable[..., None]]:
    """A progress bar while the block runs; gives `update(done, text, below=None)`, where `below` is a table that stays
    under the bar until another takes its place.  In a pipe it shows nothing: a bar is no text."""
    forced = "FORCE_COLOR" in os.environ and not on.file.isatty()  # it allows colours, no bar in a file
    if not on.is_terminal or on.quiet or forced:
        yield lambda done, text, below=None: None
        return
    narrow = on.width < 70
    columns = [MofNCompleteColumn(), TextColumn("{task.fields[text]}")]
    if not narrow:
        columns = [TextColumn("{task.description}"), BarColumn(bar_width=30), *columns, TimeElapsedColumn()]
    with _Bar(*columns, console=on) as bar:
        task = bar.add_task(what, total=total, text="")

        def update(done: int, text: str, below: Any = None) -> None:
            bar.below = below or bar.below
            bar.update(task, completed=done, text=text)

        yield update


@contextmanager
def learning(on: Console) -> Iterator[Callable[[int, float], None]]:
    """Gives ``on_step(step, loss)``: the progress of the small model that is trained on the spot."""
    with progress(on, "training", STEPS) as update:
        yield lambda step, loss: update(step, f"loss {loss:.4f}")


class _Bar(Progress):
    below: Any = None

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.below is not None:
            yield self.below


def folder(path: Path) -> Path:
    """`path` as a folder that can be written to, made if need be.

    Errors: UserError that says why it cannot (before any work is lost)."""
    with as_user_error(OSError, doing=f"cannot write to {path}", remedy="choose another folder with --out"):
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    return path


def can_draw(on: Console) -> bool:
    """Is matplotlib there?  If not, say so; the caller goes on without pictures."""
    try:
        needs("matplotlib", "viz", "it")
    except UserError as error:
        on.print(f"No picture: {error}")
        return False
    return True
