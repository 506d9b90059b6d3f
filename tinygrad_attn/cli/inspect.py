"""``tinygrad-attn inspect RUN``: each head's score gradients, saturation and bilinear form, worst first."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import probe
from ..show.page import page, table_html
from . import shared_arguments as question
from .main import CommandError
from .output import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    question.add_arguments(parser)
    parser.add_argument(
        "--names", nargs="+", default=["*.scores"], metavar="PATTERN", help="what to watch (default *.scores)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the tables as one HTML file")


def run(arguments: argparse.Namespace) -> int:
    model, loss = question.asked(arguments)
    recorder = probe.Recorder(model, every=1, on_alarm=lambda alarm: None)
    try:
        with recorder.at(0), probe.watch(model, *arguments.names) as seen:
            loss().backward()
    except (KeyError, RuntimeError) as error:
        raise CommandError(str(error.args[0])) from error
    tables = [seen.table(), recorder.table(), probe.lens(model).table()]
    screen = console()
    for table in tables:
        screen.print(table)
        screen.print()
    if arguments.out is not None:
        try:
            arguments.out.write_text(page("Inside the run", "".join(map(table_html, tables))), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"cannot write {arguments.out}: {error.strerror or error}") from error
        screen.print(f"Written to {arguments.out}")
    return 0
