"""Data for a small language model, and its training step, for the checks that run on several devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.nn.module import Module


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
