"""Does an attention block learn where the answer stands?  One training on the agreement task, examined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..autodiff.functions import cross_entropy, softmax
from ..probe.trace import NamedStep, trace
from ..show.table import Column, Table
from ..tasks.agreement import agreement, encode
from ..tasks.reader import STEPS, Exam, Reader, attention, examine, learn
from .result import two_digits

SENTENCE = "I work , you work , he ___"


@dataclass
class Reading:
    """A trained Reader, its exam on the held-out sentences, and one sentence looked at closely.

    answer, probability: what the Reader says to SENTENCE.  weights (heads, 8, 8): its attention there.
    before, after: the trace of SENTENCE with the first weights and with the trained ones."""

    reader: Reader
    exam: Exam
    held_out: int
    answer: str
    probability: float
    weights: np.ndarray
    before: list[NamedStep]
    after: list[NamedStep]


def reading(
    seed: int = 0, on_step: Callable[[int, float], None] = lambda step, loss: None, steps: int = STEPS
) -> Reading:
    """Train one Reader from `seed` and look at it.  on_step(step, loss) is called as it learns."""
    task = agreement(seed)
    reader = Reader(len(task.answers), seed)
    tokens = encode(SENTENCE)[None]  #                                     (1, 8)
    right = np.array([task.answers.index(task.ask(SENTENCE))])
    before = trace(lambda: cross_entropy(reader(tokens), right))
    learn(reader, task, seed, steps, on_step=on_step)
    exam = examine(reader, task.held_out)
    logits, weights = attention(reader, tokens)
    probabilities = softmax(logits).numpy()[0]
    answer = int(probabilities.argmax())
    after = trace(lambda: cross_entropy(reader(tokens), right))
    return Reading(
        reader, exam, len(task.held_out), task.answers[answer], float(probabilities[answer]), weights[0], before, after
    )


def row7_table(found: Reading) -> Table:
    """Row 7 of the attention weights on SENTENCE: one line per head, then their mean; columns are the tokens."""
    words = SENTENCE.split()
    keys = ["head", *(f"{i} {word}" for i, word in enumerate(words))]
    columns = [Column("head", "head", left=True)]
    columns += [
        Column(key, f"{word}\n{i}", "{:.2f}".format, _shade) for i, (key, word) in enumerate(zip(keys[1:], words))
    ]
    row7 = found.weights[:, -1]  #  (heads, 8)
    names = [str(head) for head in range(len(row7))] + ["mean"]
    weights = [*row7, row7.mean(axis=0)]
    rows = [dict(zip(keys, (name, *map(float, row)))) for name, row in zip(names, weights)]
    return Table("Row 7: where the blank looks", columns, rows, ["A row of weights sums to 1."])


def _shade(weight: float) -> str:
    """The darker the bluer, the larger the weight; no colour where a printer or a pipe has none."""
    if weight < 0.05:
        return "dim"
    return "bold white on blue" if weight >= 0.5 else "blue"


def trace_table(found: Reading) -> Table:
    """The steps of attention on SENTENCE: shapes, sizes of values and gradients, before and after training."""
    columns = [
        Column("step", "step", left=True),
        Column("shape", "shape", left=True),
        Column("value_rms", "value\nrms", two_digits),
        Column("gradient_rms", "gradient\nrms", two_digits),
        Column("value_rms_untrained", "untrained\nvalue", two_digits),
        Column("gradient_rms_untrained", "untrained\ngradient", two_digits),
    ]
    keys = [column.key for column in columns]
    rows = [
        dict(zip(keys, (now.name, "x".join(map(str, now.shape)), *_sizes(now), *_sizes(first))))
        for first, now in zip(found.before, found.after)
    ]
    notes = [
        "rms: root mean square of the entries (masked: of the visible ones).",
        "Shapes: batch x heads x tokens x width; from scores to weights queries x keys.",
        "A trained answer is certain: little gradient is left. Compare the untrained one.",
    ]
    return Table(f"One sentence: {SENTENCE}", columns, rows, notes)


def _sizes(step: NamedStep) -> tuple[float, float | None]:
    return step.value_rms, step.gradient_rms
