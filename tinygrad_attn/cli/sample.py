"""``tinygrad-attn sample RUN``: what a trained model says next."""

from __future__ import annotations

import argparse

from ..files.errors import as_user_error
from ..nn import MiniGPT
from ..tasks.letters import Task
from .attend import row_of
from .shared_arguments import add_run, flag, run_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    flag(parser, "--prompt", "what to go on from (default: the start of a held-out row)", str, "TEXT")
    flag(parser, "--tokens", "how many tokens to add (default: an answer's, of text 200)")
    flag(parser, "--temperature", "0: always the likeliest (default 0, of text 0.8)", float, "X")
    flag(parser, "--top-k", "choose among the N likeliest tokens")
    flag(parser, "--seed", "of the draws", default=0)


def run(arguments: argparse.Namespace) -> int:
    model, task = run_of(arguments)
    settings = {name: getattr(arguments, name) for name in ("prompt", "tokens", "temperature", "top_k", "seed")}
    with as_user_error(ValueError):
        text = sampled(model, task, **settings)
    print(text)  # not by rich, which changes tabs and control characters
    return 0


def sampled(
    model: MiniGPT,
    task: Task,
    prompt: str | None = None,
    tokens: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    seed: int = 0,
) -> str:
    """A prompt and what the model adds to it, as text; None is what suits the task.  Errors: ValueError."""
    start = row_of(task) if prompt is None else task.encode(prompt)
    count = task.answers if tokens is None else tokens
    likely = (0.0 if task.exact else 0.8) if temperature is None else temperature
    return task.decode(model.generate(start, count, temperature=likely, top_k=top_k, seed=seed))
