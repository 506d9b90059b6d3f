"""One small task for many questions: who follows whom?

    symbols stand on a secret cycle      a -> f -> c -> ... -> a      (16 symbols, drawn by the seed)
    a sequence shows all of them in random order, each with a random label of 8:

        f3  a7  c1 ...         each token must answer the label of the symbol that follows its own:
        1   3   ...            f answers c's label, a answers f's

Attention is all that helps: a token's own content says nothing about the answer, so guessing is right 1 time in 8.
The relation has a direction (if f follows a, a does not follow f), and what finds a token (its symbol) is not what
is wanted from it (its label).  Sequences are drawn afresh, so an exam never repeats a training sequence: there are
16! 8^16 of them.

x holds a one-hot symbol beside a one-hot label.  A row has two ones, so W ~ N(0, 1/2) gives q and k unit variance
from the first step; with sigma 0.02 the scores would be tiny and hide any saturation.

With `hops` = 4 each token answers four labels: those of its next four followers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..attention import additive_attention, scaled_dot_product_attention
from ..autodiff.blas import one_thread_blas
from ..autodiff.functions import cross_entropy
from ..autodiff.mode import no_grad, watching
from ..autodiff.ops.shape import reshape, swapaxes
from ..autodiff.tensor import Tensor
from ..nn.module import Module
from ..optim import SGD
from .experiment import Run

SYMBOLS, LABELS = 16, 8
WIDTH = SYMBOLS + LABELS  # of a token
UNIT = 0.5**0.5  # sigma of W_Q and W_K for which q and k have unit variance
BATCH, LR = 16, 3.0
HIDDEN = 32  # d_a of the additive scorer
STUCK = 1e-3  # of the gradient that a whole row could get; a row below it moves no attention


class Successor:
    """The task of one seed: a cycle, and sequences drawn from a stream.

    >>> task = Successor(seed=0)
    >>> x, labels = task.batch(np.random.default_rng(0), 2)
    >>> x.shape, labels.shape
    ((2, 16, 24), (2, 16, 1))
    """

    def __init__(self, seed: int, hops: int = 1) -> None:
        cycle = np.random.default_rng([seed, 1]).permutation(SYMBOLS)
        follower = np.empty(SYMBOLS, int)
        follower[cycle] = np.roll(cycle, -1)
        ways = [follower]
        for _ in range(hops - 1):
            ways.append(follower[ways[-1]])
        self.followers = np.stack(ways, axis=-1)  #  (symbols, hops)

    def batch(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """`size` sequences: tokens (size, n, WIDTH) and the right labels (size, n, hops)."""
        symbols = rng.permuted(np.tile(np.arange(SYMBOLS), (size, 1)), axis=1)  # (size, n)
        labels = rng.integers(0, LABELS, (size, SYMBOLS))
        x = np.concatenate([np.eye(SYMBOLS)[symbols], np.eye(LABELS)[labels]], axis=-1)
        of_symbol = np.empty_like(labels)
        np.put_along_axis(of_symbol, symbols, labels, axis=1)
        asked = self.followers[symbols]  #                                        (size, n, hops)
        right = np.take_along_axis(of_symbol, asked.reshape(size, -1), axis=1).reshape(asked.shape)
        return x.astype(np.float32), right


class Finder(Module):
    """One attention and a read-out: tokens (B, n, WIDTH) -> logits (B, n, hops, LABELS).

    scorer: "scaled" q.k/sqrt(d_k), "dot" q.k, "additive" w.tanh(q W_q + k W_k), or "none": x serves as q, k and v.
    tie: None, "qk", "kv" or "qkv" makes one matrix serve as both or all three."""

    def __init__(
        self,
        seed: int,
        d_k: int = 16,
        d_v: int = 16,
        *,
        scorer: str = "scaled",
        tie: str | None = None,
        heads: int = 1,
        hops: int = 1,
        sigma: float = UNIT,
    ) -> None:
        rng = np.random.default_rng([seed, 2])

        def drawn(rows: int, columns: int, spread: float) -> Tensor:
            return Tensor(rng.standard_normal((rows, columns)) * spread, requires_grad=True, dtype=np.float32)

        self.scorer, self.heads, self.hops, self.d_k = scorer, heads, hops, d_k
        mixed = WIDTH
        if scorer != "none":
            self.W_Q = drawn(WIDTH, heads * d_k, sigma)
            self.W_K = self.W_Q if tie in ("qk", "qkv") else drawn(WIDTH, heads * d_k, sigma)
            self.W_V = self.W_K if tie in ("kv", "qkv") else drawn(WIDTH, heads * d_v, UNIT)
            mixed = self.W_V.shape[1]
        if scorer == "additive":  # unit variance again: of q W_q + k W_k, and of the scores
            self.w_q, self.w_k = (drawn(d_k, HIDDEN, (2 * d_k) ** -0.5) for _ in range(2))
            self.w = Tensor(rng.standard_normal(HIDDEN) / HIDDEN**0.5, requires_grad=True, dtype=np.float32)
        self.W_O = drawn(mixed, hops * LABELS, mixed**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.scorer == "none":
            mix, _ = scaled_dot_product_attention(x, x, x)  #             (B, n, WIDTH)
        else:
            q, k, v = self._split(x @ self.W_Q), self._split(x @ self.W_K), self._split(x @ self.W_V)
            if self.scorer == "additive":
                mix, _ = additive_attention(q, k, v, self.w_q, self.w_k, self.w)
            else:
                mix, _ = scaled_dot_product_attention(q, k, v, scale=1.0 if self.scorer == "dot" else None)
            mix = reshape(swapaxes(mix, -3, -2), (*x.shape[:-1], self.W_O.shape[0]))
        return reshape(mix @ self.W_O, (*x.shape[:-1], self.hops, LABELS))

    def _split(self, x: Tensor) -> Tensor:
        """(B, n, heads * d) -> (B, heads, n, d)"""
        return swapaxes(reshape(x, (*x.shape[:-1], self.heads, -1)), -3, -2)


@dataclass
class Look:
    """The model on fresh sequences at one step.  stuck: share of the queries that answer wrong and whose row of
    dL/dS is below STUCK, so that nothing will move their attention; queries that are right have no gradient either,
    and that is as it should be."""

    step: int
    loss: float
    accuracy: float
    stuck: float


@one_thread_blas()
@np.errstate(over="ignore", invalid="ignore")
def train(
    finder: Finder, task: Successor, seed: int, steps: int, lr: float = LR, every: int = 0, exam: int = 64
) -> list[Look]:
    """SGD on fresh batches; a Look before the first step, after each `every` steps (0: none), and after the last.

    SGD, because Adam divides by the size of the gradient and so hides how small it is.  A learning rate that is too
    large ends in numbers that are not finite; such a model answers label 0 everywhere, and so counts as guessing."""
    rng, fresh = np.random.default_rng([seed, 3]), np.random.default_rng([seed, 4])
    asked = task.batch(fresh, exam)
    optimizer = SGD(finder.parameters(), lr)
    looks = []
    for step in range(steps + 1):
        if step in (0, steps) or (every and step % every == 0):
            looks.append(look(finder, *asked, step))
        if step < steps and np.isfinite(finder.W_O.data).all():
            x, right = task.batch(rng, BATCH)
            optimizer.zero_grad()
            cross_entropy(finder(Tensor(x)), right).backward()
            optimizer.step()
    return looks


def trained(seed: int, steps: int, lr: float = LR, every: int = 0, **finder: Any) -> list[Look]:
    """A Finder of this seed, trained on the task of this seed.  finder: its arguments."""
    return train(Finder(seed, **finder), Successor(seed, finder.get("hops", 1)), seed, steps, lr, every)


def best_rate(
    run: Run, rates: Sequence[float], steps: int, every: int = 0, **finder: Any
) -> tuple[float, list[list[Look]]]:
    """The learning rate with the highest mean accuracy at the end, and its trainings, one per seed."""
    tried = {rate: run.over_seeds(lambda seed: trained(seed, steps, rate, every, **finder)) for rate in rates}
    best = max(tried, key=lambda rate: np.mean(finals(tried[rate])))
    return best, tried[best]


def finals(runs: Sequence[list[Look]]) -> list[float]:
    """The accuracy at the end of each run."""
    return [looks[-1].accuracy for looks in runs]


def look(finder: Finder, x: np.ndarray, right: np.ndarray, step: int = 0) -> Look:
    """Loss, accuracy and stuck queries on sequences x with the labels `right`; no parameter keeps a gradient."""
    named: dict[str, Tensor] = {}
    with watching(named.__setitem__):
        logits = finder(Tensor(x, requires_grad=True))
    loss = cross_entropy(logits, right)
    found = logits.data.argmax(-1) == right  #                         (B, n, hops)
    scores = named.get("scaled", named["scores"]).retain_grad()
    loss.backward(np.float32(right.size))  #                           of the sum, so that a row's gradient is its own
    assert scores.grad is not None
    rows = np.linalg.norm(scores.grad.data, axis=-1)
    rows = rows.max(axis=1) if rows.ndim == 3 else rows  #             (B, n): the liveliest head
    stuck = (rows < STUCK) & ~found.all(axis=-1)
    finder.zero_grad()
    return Look(step, loss.item(), float(found.mean()), float(stuck.mean()))


def weights_of(finder: Finder, x: np.ndarray) -> np.ndarray:
    """Attention weights (B, heads, n, n) on sequences x."""
    named: dict[str, Tensor] = {}
    with no_grad(), watching(named.__setitem__):
        finder(Tensor(x))
    weights = named["weights"].numpy()
    return weights if weights.ndim == 4 else weights[:, None]
