"""``tinygrad-attn program RUN``: forward and backward of a trained model as NumPy lines."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..files.atomic import write_text
from ..files.errors import as_user_error
from ..programs.record import program
from .output import console
from .shared_arguments import add_question, asked, flag, switch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question(parser, rows=1)
    switch(parser, "--calls", "every array call, in place of a line for each operation")
    flag(parser, "--save", "write it as a Python file that needs NumPy alone", Path, "FOLDER")
    flag(parser, "--html", "write it as one page", Path, "FILE")


def run(arguments: argparse.Namespace) -> int:
    _, loss = asked(arguments)
    noted = program(lambda: loss().backward())
    with as_user_error(OSError):
        if arguments.save is not None:
            console().print(f"{len(noted.lines)} calls written to {noted.save(arguments.save)}")
        if arguments.html is not None:
            write_text(arguments.html, noted.html())
            console().print(f"{len(noted.lines)} calls written to {arguments.html}")
    if arguments.save is None and arguments.html is None:
        print(noted.calls() if arguments.calls else noted)
    return 0
