"""A small language model and its data, for the checks that train on several devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.module import Module


class Reader(Module):
    """Embeddings, causal blocks, a head: integers (B, n) -> logits (B, n, vocab)."""

    def __init__(self, vocab: int, n: int, d: int, seed: int, heads: int = 2, layers: int = 1, **block: Any) -> None:
        rng = np.random.default_rng(seed)
        self.tokens = ta.nn.Embedding(vocab, d, seed=rng, sigma=0.5)
        self.places = ta.nn.Embedding(n, d, seed=rng, sigma=0.5)
        self.blocks = [ta.nn.Block(d, heads, rng, causal=True, **block) for _ in range(layers)]
        self.norm = ta.nn.LayerNorm(d)
        self.head = ta.nn.Linear(d, vocab, seed=rng)

    def forward(self, ids: Any) -> ta.Tensor:
        x = self.tokens(ids) + self.places(np.arange(ids.shape[-1]))  # (B, n, d)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  #                               (B, n, vocab)


def sequences(vocab: int, count: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """ids (count, n) in which each token decides the next one, and the targets: the same, one on."""
    start = np.random.default_rng(seed).integers(vocab, size=count)
    ids = np.stack([(start * 3**i + i) % vocab for i in range(n + 1)], axis=1)
    return ids[:, :-1], ids[:, 1:]


def stepper(model: Module, ids: Any, targets: Any, optimizer: Any, max_norm: float = 1.0) -> Callable[[], ta.Tensor]:
    """One training step as a function: forward, backward, clip, update.  Gives the loss, unread."""

    def step() -> ta.Tensor:
        model.zero_grad()
        loss = ta.cross_entropy(model(ids), targets)
        loss.backward()
        ta.optim.clip_grad_norm(model.parameters(), max_norm)
        optimizer.step()
        return loss.detach()

    return step
