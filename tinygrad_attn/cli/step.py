"""``tinygrad-attn step RUN``: backward of a trained model step by step, by keys in a terminal, or as an HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import probe
from ..files.errors import as_user_error
from . import shared_arguments as question
from .output import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    question.add_arguments(parser)
    parser.set_defaults(rows=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all steps as one HTML file instead")
    parser.add_argument("--check", action="store_true", help="only hold the gradients against central differences")


def run(arguments: argparse.Namespace) -> int:
    model, loss = question.asked(arguments)
    stepper = probe.stepper(loss(), model)
    if arguments.check:
        console().print(stepper.check(loss))
        return 0
    path = arguments.out
    if path is None and sys.stdin.isatty() and sys.stdout.isatty():
        stepper.run()
        return 0
    if path is None:
        path = arguments.run_folder / "step.html"
    with as_user_error(OSError, doing=f"cannot write {path}"):
        stepper.to_html(path)
    console().print(f"{len(stepper)} steps written to {path}")
    return 0
