"""Subject: a model at several moments of its training, and one sentence to look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...autodiff.functions import cross_entropy, softmax
from ...autodiff.mode import no_grad
from ...autodiff.tensor import Tensor
from ...lab.reading import SENTENCE
from ...nn.module import Module
from ...tasks.agreement import Agreement, Ints, agreement, encode
from ...tasks.letters import Task
from ...tasks.reader import STEPS, Reader, learn
from ...train.checkpoint import CheckpointError, load
from ...train.rundir import RunDirectory
from ...train.settings import model_of, task_of
from .look import Layer, look

MOMENTS = 6  # of a training, at most
LONGEST = 32  # tokens of a sentence: more do not fit a page


@dataclass(frozen=True)
class Moment:
    """One moment of a training: the step, the loss on the sentence, every attention, the most probable answers."""

    step: int
    loss: float
    layers: list[Layer]
    answers: list[tuple[str, float]]


@dataclass(frozen=True)
class Subject:
    """What a report is about.  sentence: as it is written; words: its tokens, each visible.  target: what is right at
    the place where the model is asked.  moments: from the first weights to the last."""

    name: str
    sentence: str
    words: list[str]
    target: str
    moments: list[Moment]
    parameters: int

    @property
    def last(self) -> Moment:
        return self.moments[-1]


def subject_of_task(
    seed: int = 0, steps: int = STEPS, on_step: Callable[[int, float], None] = lambda step, loss: None
) -> Subject:
    """A Reader that learns the agreement task in a second or two, looked at six times on the way.

    >>> found = subject_of_task(steps=2)
    >>> [moment.step for moment in found.moments], found.target
    ([0, 1, 2], '-s')
    """
    task, reader = agreement(seed), None
    reader = Reader(len(task.answers), seed)
    stops = {0, steps} | {steps * share // 100 for share in (10, 20, 40, 60)}
    moments = [moment_of_reader(reader, task, 0)]

    def watched(step: int, loss: float) -> None:
        on_step(step, loss)
        if step in stops:
            moments.append(moment_of_reader(reader, task, step))

    learn(reader, task, seed, steps, on_step=watched)
    size = sum(p.size for p in reader.parameters())
    return Subject("agreement", SENTENCE, SENTENCE.split(), task.ask(SENTENCE), moments, size)


def moment_of_reader(reader: Reader, task: Agreement, step: int, sentence: str = SENTENCE) -> Moment:
    """A Reader looked at on one sentence of the language."""
    tokens, right = encode(sentence)[None], np.array([task.answers.index(task.ask(sentence))])
    return _moment(reader, lambda: reader(tokens), right, task.answers, step)


def subject_of_run(folder: Path, sentence: str | None = None) -> Subject:
    """A saved training: its first weights, its checkpoints, on `sentence` (default: a held-out row of its task).

    Errors: RunError where there is no run, CheckpointError where a checkpoint cannot be used, ValueError for words
    that the task does not know, or a sentence longer than the model reads."""
    directory = RunDirectory(folder)
    settings, task = task_of(directory.settings())
    tokens, targets = _row(task, sentence)
    model = model_of(settings, task)
    model.eval()

    def moment(step: int) -> Moment:
        place = int(np.flatnonzero(targets >= 0)[-1])
        return _moment(model, lambda: model(tokens[None])[:, place], targets[place : place + 1], task.vocabulary, step)

    moments = [moment(0)]
    saved = directory.saved()
    if not saved:
        raise CheckpointError(f"no checkpoint in {folder} yet; let the run go on with --resume")
    best = directory.best()
    at_step = {}
    for path in [*saved, *([best] if best is not None else [])]:
        tensors, state = load(path)
        at_step[int(state["step"])] = {
            n.removeprefix("model."): a for n, a in tensors.items() if n.startswith("model.")
        }
    for step in _spread(sorted(at_step), MOMENTS - 1):
        try:
            model.load_state_dict(at_step[step])
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"{folder}: the checkpoint of step {step} does not fit the model: {error.args[0]}"
            ) from error
        moments.append(moment(step))
    words = [visible(task.vocabulary[i]) for i in tokens]
    right = visible(task.vocabulary[targets[targets >= 0][-1]])
    return Subject(settings.task, task.decode(tokens), words, right, moments, sum(p.size for p in model.parameters()))


def visible(token: str) -> str:
    """A token that can be seen: a space and the end of a line have signs.

    >>> visible(" "), visible("he")
    ('␣', 'he')
    """
    return token.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")


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
    if len(steps) <= count:
        return steps
    return [steps[i] for i in sorted({round(i * (len(steps) - 1) / (count - 1)) for i in range(count)})]


def _moment(model: Module, logits: Callable[[], Tensor], right: Ints, names: tuple[str, ...], step: int) -> Moment:
    with no_grad():
        first = logits()
        probabilities = softmax(first).numpy()[0].astype(float)
        loss = cross_entropy(first, right).item()
    layers = look(model, lambda: cross_entropy(logits(), right))
    order = np.argsort(-probabilities)[:3]
    return Moment(step, float(loss), layers, [(visible(names[i]), float(probabilities[i])) for i in order])
