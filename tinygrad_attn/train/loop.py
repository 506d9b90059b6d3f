"""The training loop.

    for each step:  gradient of the batch's losses  ->  clip  ->  AdamW at this step's learning rate
    now and then:   loss and accuracy on held-out rows

A generator, like backward: `Trainer.steps()` yields a Report after each step, and whoever consumes it prints,
writes and saves.  Everything a step does follows from (settings, step number), so a Trainer that is given the
weights, moments and number of a step goes on exactly as the one it was taken from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.arrays import Array, fresh, module_of, to_host
from ..autodiff.blas import one_thread_blas
from ..autodiff.mode import no_grad
from ..autodiff.ops.loss import cross_entropy
from ..files.errors import UserError
from ..optim import warmup_cosine
from ..tasks.letters import IGNORED, Batch, Task
from .allocator import keep_freed_memory
from .finite import first_bad
from .gradient import BatchGradient, keys, scaled_and_clipped, summed
from .settings import Settings, model_of, optimizer_of
from .workers import Threads, Workers, share

LOOK_EVERY = 20  # steps between looks at the loss on a GPU: each one waits for it


@dataclass(frozen=True)
class Evaluation:
    """loss: mean over the held-out targets.  accuracy: share of held-out rows with every target right."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Report:
    """What happened in a step.  step: 1 after the first.  sums: (sum of losses, counted targets), on the device."""

    step: int
    sums: Array
    norm: Array
    lr: float
    evaluation: Evaluation | None

    @property
    def loss(self) -> float:
        """The mean loss of the batch (waits for a GPU)."""
        total, count = to_host(self.sums)
        return float(total / max(count, 1.0))


class NotFinite(UserError, ArithmeticError):
    """NaN or Inf in training; the message names the step and the first bad operation."""


class Trainer:
    """A model, its optimiser, and where training stands.

    step: how many steps are done.  best: the lowest held-out loss so far.

    >>> from tinygrad_attn.train.settings import preset, task_of
    >>> trainer = Trainer(*task_of(preset("copy", steps=2, batch=4)))
    >>> [report.step for report in trainer.steps()]
    [1, 2]
    """

    def __init__(self, settings: Settings, task: Task, workers: Workers | None = None, device: str = "cpu") -> None:
        self.settings, self.task, self.device = settings, task, device
        self.workers = workers or Threads(1)
        if self.workers.count > settings.batch:
            raise ValueError(
                f"{self.workers.count} workers cannot share {settings.batch} rows; take fewer workers or ranks"
            )
        self.model = model_of(settings, task)
        if device != "cpu":
            self.model.to(device)
        self.optimizer = optimizer_of(settings, self.model)
        self.gradient = BatchGradient(self.model, self.optimizer, self.workers, settings.seed, settings.accumulate)
        self.step, self.best = 0, float("inf")
        # entered for each gradient, with the number of the step: for a meter that looks at some of them
        self.each_gradient_in: Callable[[int], AbstractContextManager[object]] = lambda step: nullcontext()

    def steps(self) -> Iterator[Report]:
        """Train until settings.steps, from where training stands.

        Errors: NotFinite, before the weights are touched (on a GPU: up to LOOK_EVERY steps after)."""
        keep_freed_memory()
        every = self.settings.eval_every
        while self.step < self.settings.steps:
            with one_thread_blas(), np.errstate(all="ignore"):  # what is not finite is looked for, and named, below
                sums, norm, lr = self._advance()
                due = self.step % every == 0 or self.step == self.settings.steps
                evaluation = self.evaluate() if due else None
            if evaluation is not None:
                self.best = min(self.best, evaluation.loss)
            yield Report(self.step, sums, norm, lr, evaluation)

    def _advance(self) -> tuple[Array, Array, float]:
        """One step: (sums, gradient norm, learning rate)."""
        now, s = self.step, self.settings
        self.optimizer.lr = warmup_cosine(now, s.steps, s.lr, s.warmup, s.floor * s.lr)
        with self.each_gradient_in(now):
            sums = self.gradient(self._rows, s.batch, now)
        norm = scaled_and_clipped(self.optimizer.gradients, sums[1], s.clip)
        if (self.device == "cpu" or (now + 1) % LOOK_EVERY == 0) and not np.isfinite(float(norm)):
            raise NotFinite(f"step {now + 1}: {self._diagnosis(now)}")
        self.optimizer.step_flat()
        self.step += 1
        return sums, norm, self.optimizer.lr

    def _rows(self, first: int, size: int) -> Batch:
        """Rows of this step's batch."""
        return self.task.rows(self.step * self.settings.batch + first, size)

    def _diagnosis(self, step: int) -> str:
        """Run the step's batch once more, with the same dropout, and look at every value and gradient."""
        tokens, targets = self._rows(0, self.settings.batch)
        return first_bad(self.model, tokens, targets, keys(self.settings.seed, step, 0))

    # ------------------------------------------------------------------------ held-out rows

    def evaluate(self) -> Evaluation:
        """Loss and accuracy on the held-out rows, split over the workers."""
        held_out = self.task.held_out()
        self.model.eval()
        try:
            loss, count, right, rows = to_host(summed(lambda worker: [self._judged(held_out, worker)], self.workers))
        finally:
            self.model.train()
        return Evaluation(float(loss / max(count, 1)), float(right / max(rows, 1)))

    def _judged(self, held_out: Batch, worker: int) -> Array:
        """One worker's sums: losses, counted targets, rows that are all right, rows."""
        mine, size = share(len(held_out.tokens), self.workers.count, worker), self.settings.batch
        sums: Any = 0.0
        for first in range(mine.start, mine.stop, size):
            rows = slice(first, min(first + size, mine.stop))
            tokens, targets = (fresh(part[rows], device=self.device) for part in held_out)
            with no_grad():
                logits = self.model(tokens)  #                                 (rows, T, vocabulary)
                loss = cross_entropy(logits, targets)
            module = module_of(targets)
            counted = targets != IGNORED
            count = counted.sum()
            right = ((logits._data.argmax(axis=-1) == targets) | ~counted).all(axis=-1).sum()
            parts = [loss._data * count, count, right, module.asarray(len(tokens))]
            sums = sums + module.stack([part.astype("float64") for part in parts])
        return sums if mine else module_of(self.optimizer.gradients[0]).zeros(4)
