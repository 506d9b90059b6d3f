"""``tinygrad-attn sample RUN``: what a trained model says next."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..files.errors import as_user_error
from ..nn import MiniGPT
from ..tasks.letters import Task
from ..train.load_run import trained
from .output import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument("--prompt", metavar="TEXT", help="what to go on from (default: the start of a held-out row)")
    parser.add_argument(
        "--tokens", type=int, metavar="N", help="how many tokens to add (default: an answer's, of text 200)"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="X", help="0: always the likeliest (default 0, of text 0.8)"
    )
    parser.add_argument("--top-k", type=int, metavar="N", help="choose among the N likeliest tokens")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default 0)")
    parser.add_argument("--last", action="store_true", help="the last checkpoint instead of the best")


def run(arguments: argparse.Namespace) -> int:
    from .attend import row_of

    with as_user_error(ValueError, OSError):
        model, task = trained(arguments.run_folder, best=not arguments.last)
        prompt = task.decode(row_of(task)) if arguments.prompt is None else arguments.prompt
        count = task.answers if arguments.tokens is None else arguments.tokens
        temperature = (0.0 if task.exact else 0.8) if arguments.temperature is None else arguments.temperature
        text = sampled(model, task, prompt, count, temperature, arguments.top_k, arguments.seed)
    console().print(text, markup=False, soft_wrap=True)
    return 0


def sampled(
    model: MiniGPT, task: Task, prompt: str, count: int, temperature: float, top_k: int | None, seed: int
) -> str:
    """The prompt and `count` sampled tokens behind it, as text."""
    return task.decode(model.generate(task.encode(prompt), count, temperature=temperature, top_k=top_k, seed=seed))
