"""The same small GPT and its training step in JAX and optax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


def parameters(vocab_size: int, context: int, d: int, n_layers: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape) * 0.02, jnp.float32)

    def block() -> dict[str, Any]:
        return {
            "g1": jnp.ones(d), "b1": jnp.zeros(d), "qkv": normal(d, 3 * d), "out": normal(d, d),
            "g2": jnp.ones(d), "b2": jnp.zeros(d), "up": normal(d, 4 * d), "ub": jnp.zeros(4 * d),
            "down": normal(4 * d, d), "db": jnp.zeros(d),
        }  # fmt: skip

    return {
        "tokens": normal(vocab_size, d), "positions": normal(context, d), "g": jnp.ones(d), "b": jnp.zeros(d),
        "head": normal(d, vocab_size), "blocks": [block() for _ in range(n_layers)],
    }  # fmt: skip


def norm(x: Any, gain: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def loss_of(P: dict[str, Any], tokens: Any, targets: Any, n_heads: int) -> Any:
    B, T = tokens.shape
    x = P["tokens"][tokens] + P["positions"][:T]
    d = x.shape[-1]
    keep = jnp.tril(jnp.ones((T, T), bool))
    for p in P["blocks"]:
        parts = jnp.split(norm(x, p["g1"], p["b1"]) @ p["qkv"], 3, -1)
        q, k, v = (part.reshape(B, T, n_heads, d // n_heads).swapaxes(1, 2) for part in parts)
        scores = jnp.where(keep, q @ k.swapaxes(-1, -2) / math.sqrt(d // n_heads), -jnp.inf)
        x = x + (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(B, T, d) @ p["out"]
        x = x + jax.nn.gelu(norm(x, p["g2"], p["b2"]) @ p["up"] + p["ub"], approximate=True) @ p["down"] + p["db"]
    logits = norm(x, P["g"], P["b"]) @ P["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


def stepper(
    vocab_size: int, context: int, d: int, n_heads: int, n_layers: int, tokens: Any, targets: Any
) -> Callable[[], Any]:
    """A function that makes one compiled training step: forward, backward, clip, AdamW."""
    P = parameters(vocab_size, context, d, n_layers)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    state = optimizer.init(P)
    x, y = jnp.asarray(tokens), jnp.asarray(targets)

    @jax.jit
    def step(P: Any, state: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(P, x, y, n_heads)
        updates, state = optimizer.update(gradients, state, P)
        return optax.apply_updates(P, updates), state, loss

    def run() -> float:
        nonlocal P, state
        P, state, loss = step(P, state)
        return float(loss)

    return run
