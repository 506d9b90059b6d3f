"""Subject: a model at several steps of its training, and one sentence to look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...lab.reading import SENTENCE
from ...nn.module import Module
from ...tasks.agreement import Ints, agreement, encode
from ...tasks.letters import Task
from ...tasks.reader import STEPS, Reader, learn
from ...train.checkpoint import CheckpointError, fit, load
from ...train.rundir import RunDirectory
from ...train.settings import model_of, task_of
from ..look import Answer, ask, visible

SNAPSHOTS = 6  # of a training, at most
LONGEST = 32  # tokens of a sentence: more do not fit a page


@dataclass(frozen=True)
class Subject:
    """What a report is about.  sentence: as it is written; words: its tokens, each visible.  target: what is right at
    the place where the model is asked.  snapshots: from the first weights to the last."""

    name: str
    sentence: str
    words: list[str]
    target: str
    snapshots: list[Answer]
    parameters: int

    @property
    def last(self) -> Answer:
        return self.snapshots[-1]


def subject_of_task(
    seed: int = 0, steps: int = STEPS, on_step: Callable[[int, float], None] = lambda step, loss: None
) -> Subject:
    """A Reader that learns the agreement task in a second or two, looked at six times on the way.

    >>> found = subject_of_task(steps=2)
    >>> [snapshot.step for snapshot in found.snapshots], found.target
    ([0, 1, 2], '-s')
    """
    task = agreement(seed)
    reader = Reader(len(task.answers), seed)
    tokens, right = encode(SENTENCE)[None], task.answers.index(task.ask(SENTENCE))
    stops = {0, steps} | {steps * share // 100 for share in (10, 20, 40, 60)}
    snapshots: list[Answer] = []

    def look_at(step: int, loss: float = 0.0) -> None:
        if step:
            on_step(step, loss)
        if step in stops:
            snapshots.append(ask(reader, lambda: reader(tokens), task.answers, right, step))

    look_at(0)
    learn(reader, task, seed, steps, on_step=look_at)
    return Subject("agreement", SENTENCE, SENTENCE.split(), snapshots[-1].target, snapshots, _size(reader))


def subject_of_run(folder: Path, sentence: str | None = None) -> Subject:
    """A saved training: its first weights, its checkpoints, on `sentence` (default: a held-out row of its task).

    Errors: RunError where there is no run, CheckpointError where a checkpoint cannot be used, ValueError for words
    that the task does not know, or a sentence longer than the model reads."""
    directory = RunDirectory(folder)
    settings, task = task_of(directory.settings())
    tokens, targets = _row(task, sentence)
    place = int(np.flatnonzero(targets >= 0)[-1])
    model = model_of(settings, task).eval()

    def look_at(step: int) -> Answer:
        return ask(model, lambda: model(tokens[None])[:, place], task.vocabulary, int(targets[place]), step)

    snapshots = [look_at(0)]
    checkpoints = _checkpoints(directory)
    for step in _spread(sorted(checkpoints), SNAPSHOTS - 1):
        fit(model, *checkpoints[step])
        snapshots.append(look_at(step))
    words = [visible(task.vocabulary[i]) for i in tokens]
    return Subject(settings.task, task.decode(tokens), words, snapshots[-1].target, snapshots, _size(model))


def _size(model: Module) -> int:
    return sum(p.size for p in model.parameters())


def _checkpoints(directory: RunDirectory) -> dict[int, tuple[dict[str, np.ndarray], Path]]:
    """step -> the tensors of its checkpoint, and where they lie."""
    saved, best = directory.saved(), directory.best()
    if not saved:
        raise CheckpointError(f"no checkpoint in {directory.path} yet; let the run go on with --resume")
    loaded = [(path, *load(path)) for path in [*saved, *([best] if best is not None else [])]]
    return {int(state["step"]): (tensors, path) for path, tensors, state in loaded}


def _row(task: Task, sentence: str | None) -> tuple[Ints, Ints]:
    """Tokens and targets, (n,) each: the last target is what the report asks for."""
    rows = task.held_out()
    if sentence is None:
        tokens, targets = rows.tokens[0], rows.targets[0]
        stop = min(len(tokens), LONGEST)
        if (targets[:stop] < 0).all():
            stop = int(np.flatnonzero(targets >= 0)[0]) + 1
        return tokens[:stop], targets[:stop]
    tokens = task.encode(sentence)
    if len(tokens) < 2:
        raise ValueError(
            "expected a sentence of at least two tokens; the last one is the answer that the gradient asks for"
        )
    if len(tokens) - 1 > task.context:
        raise ValueError(
            f"{len(tokens)} tokens do not fit the model: it reads {task.context}, and one more is the answer"
        )
    return tokens[:-1], tokens[1:]


def _spread(steps: list[int], count: int) -> list[int]:
    """At most `count` of `steps`, the last one among them, evenly.

    >>> _spread([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    places = np.linspace(0, len(steps) - 1, min(count, len(steps)))
    return [steps[round(place)] for place in places]
