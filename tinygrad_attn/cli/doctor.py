"""``tinygrad-attn doctor RUN``: what is wrong with the gradient flow of a trained model, and what to change."""

from __future__ import annotations

import argparse

from .. import probe
from . import shared_arguments as question
from .output import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    question.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    model, loss = question.asked(arguments)
    console().print(str(probe.doctor(loss, model)))
    return 0
