"""The gradient of a batch, by any number of workers.

    worker w:   loss_w = sum of its rows' losses        count_w = how many targets they had
                gradient_w = d loss_w / d parameters    by one forward and backward of its own
    together:   gradient = sum_w gradient_w / sum_w count_w      (in the order of w; divided once)

Means do not add up where shares are uneven or targets are ignored; sums do.  And since the order is fixed,
a result never depends on which worker was first.

A worker's gradients go from backward straight to their places in one flat buffer, laid out as the optimiser's:
no ``.grad`` objects, and what is added up, clipped and used is one array per group of parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autodiff.arrays import Array, fresh, module_of
from ..autodiff.graph import Node
from ..autodiff.mode import drawing
from ..autodiff.ops.loss import cross_entropy
from ..autodiff.walk import walk
from ..nn.module import Module
from ..optim import Optimizer
from ..tasks.letters import IGNORED, Batch
from .workers import Carrier, share

Rows = Callable[[int, int], Batch]  # (first row of the batch, how many) -> the rows
Place = tuple[int, slice]  # group of the optimiser, stretch of its buffer


class BatchGradient:
    """Fills ``optimizer.gradients`` with the *sum* of the gradients of a batch's losses.

    seed: of dropout, whose patterns depend on (seed, step, position in the batch) and on nothing else."""

    def __init__(self, model: Module, optimizer: Optimizer, carrier: Carrier, seed: int, accumulate: int = 1) -> None:
        self.model, self.optimizer, self.carrier = model, optimizer, carrier
        self.seed, self.accumulate = seed, accumulate
        self._places: dict[Node, Place] = {}
        for number, group in enumerate(optimizer.groups):
            for p, place in zip(group.params, group.places):
                assert p._node is not None
                self._places[p._node] = (number, place)
        first, *others = carrier.mine  # this process's first worker writes where the optimiser reads
        self._buffers = {first: optimizer.gradients}
        self._buffers.update({n: [g.module.empty_like(g.values) for g in optimizer.groups] for n in others})

    def __call__(self, rows: Rows, size: int, step: int) -> Array:
        """Sums over the batch `rows(0, size)` of step number `step`.  Gives (sum of losses, counted targets), an
        array of two float64 that stays on the device."""
        return reduced(
            lambda worker: self._share(rows, share(size, self.carrier.count, worker), step, worker), self.carrier
        )

    def _share(self, rows: Rows, mine: range, step: int, worker: int) -> list[Array]:
        """One worker's sums: a buffer for each group of parameters, and (sum of losses, count)."""
        buffers = self._buffers[worker]
        module = module_of(buffers[0])
        numbers = module.zeros(2)
        written: set[Node] = set()
        for part in range(self.accumulate):
            piece = share(len(mine), self.accumulate, part)
            if piece:
                self._piece(rows, mine.start + piece.start, len(piece), step, buffers, numbers, written)
        for node, (group, place) in self._places.items():
            if node not in written:
                buffers[group][place] = 0.0
        return [*buffers, numbers]

    def _piece(
        self, rows: Rows, first: int, size: int, step: int, buffers: list[Array], numbers: Array, written: set[Node]
    ) -> None:
        """Forward and backward of `size` rows of the batch, from row `first`."""
        tokens, targets = rows(first, size)
        count = int(np.count_nonzero(targets != IGNORED))
        if module_of(buffers[0]) is not np:
            device = self.optimizer.params[0].device
            tokens, targets = fresh(tokens, device=device), fresh(targets, device=device)
        with drawing(keys(self.seed, step, first)):
            loss = cross_entropy(self.model(tokens), targets)  # the mean over the counted targets
        numbers[0] += loss._data.astype(numbers.dtype) * count
        numbers[1] += count
        sum_of_losses = module_of(loss._data).asarray(count, loss.dtype)  # d(mean * count)/d(mean)
        for arrived in walk({loss._node: sum_of_losses}, every=False):
            place = self._places.get(arrived.node)
            if place is not None:
                group, stretch = place
                if arrived.node in written:
                    buffers[group][stretch] += arrived.gradient.reshape(-1)
                else:
                    buffers[group][stretch] = arrived.gradient.reshape(-1)
                    written.add(arrived.node)


def keys(seed: int, step: int, first: int) -> Callable[[], tuple[tuple[int, int], int]]:
    """Keys of the dropout patterns of one forward pass over rows from `first` on: the same for all workers."""
    call = itertools.count()
    return lambda: ((seed, (step << 16) + next(call)), first)


def reduced(work: Callable[[int], list[Array]], carrier: Carrier) -> Any:
    """Run `work` on every worker and add up what they give, array by array: into the first one's arrays.
    Gives the last of these arrays.  (The one reduction of training: gradients, losses, right answers.)"""
    first, *others = carrier.run(work)
    for other in others:
        for total, part in zip(first, other, strict=True):
            total += part
    carrier.total(first)
    return first[-1]


def scaled_and_clipped(gradients: list[Array], count: Any, max_norm: float) -> Array:
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
