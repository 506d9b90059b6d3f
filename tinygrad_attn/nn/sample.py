"""Sampling: from logits to the next token."""

from __future__ import annotations

import numpy as np


def pick(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> np.ndarray:
    """One token from each row of logits (..., vocab): (...).

    softmax(logits / temperature) over the `top_k` largest; temperature 0 is the largest itself.

    >>> pick(np.array([[0.0, 5.0, 1.0]]), 0.0, None, np.random.default_rng(0))
    array([1])
    """
    if not temperature >= 0.0:
        raise ValueError(f"generate: expected a temperature of at least 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"generate: expected top_k of at least 1, got {top_k}")
    if np.isnan(logits).any() or (logits.max(axis=-1) == -np.inf).any():
        raise ValueError("generate: the logits hold NaN, or a row of -inf alone: there is no token to draw")
    if temperature == 0.0:
        return logits.argmax(axis=-1)
    scores = logits.astype(np.float64)
    top = scores.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        scores = np.where(scores == top, 0.0, np.where(scores == -np.inf, -np.inf, (scores - top) / temperature))
    if top_k is not None and top_k < scores.shape[-1]:
        hidden = np.argsort(-scores, axis=-1, kind="stable")[..., top_k:]  # exactly k stay, also where some are equal
        np.put_along_axis(scores, hidden, -np.inf, axis=-1)
    p = np.exp(scores)
    edges = p.cumsum(axis=-1)
    drawn = rng.random(edges.shape[:-1])[..., None] * edges[..., -1:]
    return (edges <= drawn).sum(axis=-1)  # the first edge above what was drawn
