"""The gradient of a batch, by any number of workers.

    worker w:   loss_w = sum of its rows' losses        count_w = how many targets they had
                gradient_w = d loss_w / d parameters    by one forward and backward of its own
    together:   gradient = sum_w gradient_w / sum_w count_w      (in the order of w; divided once)

Means do not add up where shares are uneven or targets are ignored; sums do.  And since the order is fixed,
a result never depends on which worker was first.

A worker's gradients go to their places in a flat buffer of its own, laid out as the optimiser's: what is added up,
clipped and used is one array per group of parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..autodiff.arrays import Array, fresh, module_of
from ..autodiff.mode import drawing
from ..autodiff.ops.loss import cross_entropy
from ..autodiff.walk import gradients_at
from ..nn.module import Module
from ..optim import Optimizer
from ..tasks.letters import IGNORED, Batch
from .workers import Workers, share

Rows = Callable[[int, int], Batch]  # (first row of the batch, how many) -> the rows


class BatchGradient:
    """Fills ``optimizer.gradients`` with the *sum* of the gradients of a batch's losses.

    seed: of dropout, whose patterns depend on (seed, step, position in the batch) and on nothing else.
    accumulate: in how many parts a worker computes its share, one after the other."""

    def __init__(self, model: Module, optimizer: Optimizer, workers: Workers, seed: int, accumulate: int = 1) -> None:
        self.model, self.optimizer, self.workers = model, optimizer, workers
        self.seed, self.accumulate = seed, accumulate
        self._places = {  # node of a parameter -> (group of the optimiser, stretch of its buffer)
            p._node: (number, place)
            for number, group in enumerate(optimizer.groups)
            for p, place in zip(group.params, group.places)
            if p._node is not None
        }
        first, *others = workers.mine  # this process's first worker writes where the optimiser reads
        self._buffers = {first: optimizer.gradients}
        self._buffers.update({n: [g.module.empty_like(g.values) for g in optimizer.groups] for n in others})

    def __call__(self, rows: Rows, size: int, step: int) -> Array:
        """Sums over the batch `rows(0, size)` of step number `step`.  Gives (sum of losses, counted targets), an
        array of two float64 that stays on the device."""
        return summed(
            lambda worker: self._share(rows, share(size, self.workers.count, worker), step, worker), self.workers
        )

    def _share(self, rows: Rows, mine: range, step: int, worker: int) -> list[Array]:
        """One worker's sums: a buffer for each group of parameters, and (sum of losses, count)."""
        buffers = self._buffers[worker]
        sums = [*buffers, module_of(buffers[0]).zeros(2)]
        for buffer in buffers:
            buffer[...] = 0.0
        for part in range(self.accumulate):
            piece = share(len(mine), self.accumulate, part)
            if piece:
                self._add(sums, *rows(mine.start + piece.start, len(piece)), step, mine.start + piece.start)
        return sums

    def _add(self, sums: list[Array], tokens: Array, targets: Array, step: int, first: int) -> None:
        """Forward and backward of some rows, the batch's from `first` on; what they give is added to the sums."""
        count = int(np.count_nonzero(targets != IGNORED))
        device = self.optimizer.params[0].device
        with drawing(keys(self.seed, step, first)):
            loss = cross_entropy(self.model(fresh(tokens, device=device)), fresh(targets, device=device))  # the mean
        sums[-1][0] += loss._data.astype(sums[-1].dtype) * count
        sums[-1][1] += count
        sum_of_losses = module_of(loss._data).asarray(count, loss.dtype)  # d(mean * count)/d(mean)
        for node, gradient in gradients_at({loss._node: sum_of_losses}, self._places).items():
            group, place = self._places[node]
            sums[group][place] += gradient.reshape(-1)


def keys(seed: int, step: int, first: int) -> Callable[[], tuple[tuple[int, int], int]]:
    """Keys of the dropout patterns of one forward pass over rows from `first` on: the same for all workers."""
    call = itertools.count()
    return lambda: ((seed, (step << 16) + next(call)), first)


def summed(work: Callable[[int], list[Array]], workers: Workers) -> Array:
    """Let every worker do its `work` and add up what they give, array by array: into the first one's arrays.
    Gives the last of these arrays.  (Gradients, losses and right answers are all added up here.)"""
    first, *others = workers.each(work)
    for other in others:
        for total, part in zip(first, other, strict=True):
            total += part
    workers.total(first)
    return first[-1]


def scaled_and_clipped(gradients: list[Array], count: Array, max_norm: float) -> Array:
    """Divide the summed gradients by `count` and clip their norm to `max_norm`, in one pass, in place.

    Gives the norm before clipping, float64, on the device.  One that is not finite leaves the gradients unscaled."""
    module = module_of(gradients[0])
    if module is np:
        norm = float(np.sqrt(sum(_square(g) for g in gradients))) / max(float(count), 1.0)
        if np.isfinite(norm):
            factor = min(1.0, max_norm / norm if norm else 1.0) / max(float(count), 1.0)
            for g in gradients:
                g *= factor
        return np.asarray(norm)
    one = module.maximum(count, 1.0)
    norm = module.linalg.norm(module.stack([module.linalg.norm(g) for g in gradients])).astype("float64") / one
    factor = module.minimum(1.0, max_norm / module.maximum(norm, 1e-30)) / one
    for g in gradients:
        g *= factor.astype(g.dtype)
    return norm


def _square(g: np.ndarray, block: int = 1 << 16) -> float:
    """Sum of squares: float32 products in blocks, added in float64."""
    return sum(float(np.vdot(part, part)) for part in (g[i : i + block] for i in range(0, g.size, block)))
