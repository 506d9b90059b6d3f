"""``tinygrad-attn step RUN``: backward of a trained model step by step, by keys in a terminal, or as an HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import probe
from ..files.errors import as_user_error
from .output import console
from .shared_arguments import add_question, asked, flag, switch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question(parser, rows=1)
    flag(parser, "--out", "write all steps as one HTML file instead", Path, "FILE")
    switch(parser, "--check", "only hold the gradients against central differences")


def run(arguments: argparse.Namespace) -> int:
    model, loss = asked(arguments)
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
