"""``tinygrad-attn inspect RUN``: each head's score gradients, saturation and bilinear form, worst first."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import probe
from ..files.errors import as_user_error
from ..show.page import page
from .output import console
from .shared_arguments import add_question, asked, flag


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question(parser)
    names = "what to watch, may be given again (default *.scores)"
    parser.add_argument("--names", action="append", metavar="PATTERN", help=names)
    flag(parser, "--out", "also write the tables as one HTML file", Path, "FILE")


def run(arguments: argparse.Namespace) -> int:
    model, loss = asked(arguments)
    recorder = probe.Recorder(model, every=1, on_alarm=lambda alarm: None)
    with (
        as_user_error(KeyError, RuntimeError),
        recorder.at(0),
        probe.watch(model, *(arguments.names or ["*.scores"])) as watched,
    ):
        loss().backward()
    tables = [watched.table(), recorder.table(), probe.lens(model).table()]
    screen = console()
    for table in tables:
        screen.print(table)
        screen.print()
    if arguments.out is not None:
        body = "".join(table.to_html() for table in tables)
        with as_user_error(OSError, doing=f"cannot write {arguments.out}"):
            arguments.out.write_text(page("Inside the run", body), encoding="utf-8")
        screen.print(f"Written to {arguments.out}")
    return 0
