"""``tinygrad-attn doctor RUN``: what is wrong with the gradient flow of a trained model, and what to change."""

from __future__ import annotations

import argparse

from .. import probe
from .output import console
from .shared_arguments import add_question, asked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question(parser)


def run(arguments: argparse.Namespace) -> int:
    model, loss = asked(arguments)
    console().print(str(probe.doctor(loss, model)))
    return 0
