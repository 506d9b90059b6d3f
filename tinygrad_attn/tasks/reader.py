"""Reader: the smallest model that can learn the agreement task, and how it learns.

    tokens (B, 8)
      token embedding + position embedding      (B, 8, d_model)
      one causal Block: 4 heads, then an MLP    (B, 8, d_model)
      LayerNorm, Linear at the last position    (B, answers)

The answer stands at position 6.  Position 7 holds the blank, so its row of attention weights must
find position 6: an index into the sentence that nobody told the model about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.blas import one_thread_blas
from ..autodiff.functions import cross_entropy
from ..autodiff.mode import no_grad, watching
from ..autodiff.tensor import Tensor
from ..nn import Block, Embedding, LayerNorm, Linear
from ..nn.module import Module
from ..optim import Adam
from .agreement import ASKED_AT, BLANK_AT, LENGTH, VOCABULARY, Agreement, Ints, Split

STEPS = 100  # batches of 64: half of them would do (100 % on held-out sentences from about step 40)


class Reader(Module):
    """Reads a sentence of the agreement task and answers its blank: tokens (B, 8) -> logits (B, answers).

    >>> from tinygrad_attn.tasks.agreement import encode
    >>> Reader(answers=2, seed=0)(encode("I work , you work , he ___")[None]).shape
    (1, 2)
    """

    def __init__(self, answers: int, seed: int, d_model: int = 64, n_heads: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.token = Embedding(len(VOCABULARY), d_model, seed=rng)
        self.position = Embedding(LENGTH, d_model, seed=rng)
        self.block = Block(d_model, n_heads, rng, causal=True)
        self.norm = LayerNorm(d_model)
        self.answer = Linear(d_model, answers, seed=rng)

    def forward(self, tokens: Ints, **attention: Any) -> Tensor:
        """Tokens (B, n <= 8) -> logits (B, answers) at the last one.  mask, causal, scale: as of MultiHeadAttention.

        Errors: IndexError for more than 8 tokens."""
        x = self.token(tokens) + self.position(np.arange(tokens.shape[-1]))  # (B, n, d_model)
        x = self.block(x, **attention)  #                                      (B, n, d_model)
        return self.answer(self.norm(x[:, -1]))  #                             (B, answers)


def learn(
    reader: Reader,
    task: Agreement,
    seed: int,
    steps: int = STEPS,
    batch: int = 64,
    lr: float = 1e-3,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train `reader` with Adam on batches of the task's training sentences.  on_step(step, loss) after each."""
    rng = np.random.default_rng(seed)
    optimizer = Adam(reader.parameters(), lr)
    with one_thread_blas():  # for matrices of 64 columns more threads only wait for each other
        for step in range(1, steps + 1):
            tokens, labels = task.train.batch(rng, batch)
            loss = cross_entropy(reader(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            on_step(step, loss.item())


@dataclass
class Exam:
    """accuracy: share of right answers.  row7: weights of the blank on every token, (sentences, heads, 8).
    finds_6: share of sentences whose largest weight in row 7, averaged over the heads, is on position 6."""

    accuracy: float
    row7: np.ndarray

    @property
    def finds_6(self) -> float:
        return float((self.row7.mean(axis=1).argmax(axis=-1) == ASKED_AT).mean())


def attention(reader: Reader, tokens: Ints) -> tuple[Tensor, np.ndarray]:
    """Logits (B, answers) and the attention weights behind them (B, heads, 8, 8)."""
    named: dict[str, Tensor] = {}
    with no_grad(), watching(named.__setitem__):
        logits = reader(tokens)
    return logits, named["block.attn.weights"].numpy()


def examine(reader: Reader, split: Split) -> Exam:
    """How many answers are right, and where did the blank look?"""
    logits, weights = attention(reader, split.tokens)
    return Exam(float((logits.argmax(-1) == split.labels).mean()), weights[:, :, BLANK_AT])
