"""The command line: ``tinygrad-attn COMMAND``, the same as ``python -m tinygrad_attn COMMAND``.

A command is a module with ``add_arguments(parser)`` and ``run(arguments) -> exit code``.  Adding one is
one line in COMMANDS.  Only the module of the command that was asked for is imported, so the help and a
typing error answer at once, and a command may need an extra that others do not.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..files.errors import UserError

COMMANDS = {  # each a module of this room, and its line in the help
    "demo": "train an attention block, see its gradients, break it on purpose (under a minute)",
    "train": "train a small GPT on agreement, copy, reverse, induction or text",
    "sample": "let a trained model go on with a text",
    "attend": "where each head of a trained model looks in a sentence",
    "inspect": "score gradients, saturation and bilinear form of each head of a trained model",
    "step": "walk backward through a trained model, node by node",
    "doctor": "what is wrong with a trained model's gradient flow, and what to change",
    "program": "a trained model's step as NumPy lines: printed, or as a file that needs NumPy alone",
    "report": "one offline HTML page about a trained model's attention, or about the experiments",
    "play": "the live page: type a sentence, turn the knobs (needs the extra `play`)",
    "lab": "experiments that answer one question each; without a name: the list",
    "sweep": "a grid of experiments or trainings on a Dask cluster",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 0 done, 1 the reader of our output has left, or some
    cells of a sweep failed, 2 wrong use, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # a letter that the terminal lacks is shown as ?
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = argparse.ArgumentParser("tinygrad-attn", description="Where does the gradient go in attention?")
    parser.add_argument("--version", action="version", version=f"tinygrad_attn {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name == chosen:
            module = importlib.import_module(f".{name}", __package__)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    try:
        code = int(arguments.run(arguments) or 0)
        if sys.stdout is not None:  # (None: a service without one)
            sys.stdout.flush()
        return code
    except UserError as error:
        print(f"tinygrad-attn {arguments.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _left()
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        where = error.filename or "the output"
        print(f"tinygrad-attn {arguments.command}: cannot write {where}: {error.strerror}", file=sys.stderr)
        _left()
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def _left() -> int:
    """Nobody takes our output any more (`tinygrad-attn demo | head`): Python must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
