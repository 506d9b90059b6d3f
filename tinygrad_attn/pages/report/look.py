"""look: one forward and backward pass of a model, every step of every attention kept, head by head."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...autodiff.arrays import to_host
from ...autodiff.tensor import Tensor
from ...nn.module import Module
from ...probe import watch
from ...probe.seen import Seen

STEPS = ("q", "k", "v", "scores", "scaled", "masked", "weights", "mix")
CHAIN = ("mix", "weights", "scaled", "scores", "q", "W_Q")  # what dL/dout passes on its way to W_Q


@dataclass(frozen=True)
class Layer:
    """One attention: value and gradient of each step, (heads, n, d) or (heads, n, n).

    query: the gradient of each head's part of W_Q, (heads, d_model, d_k).  A gradient that never arrived is not there."""

    value: dict[str, np.ndarray]
    gradient: dict[str, np.ndarray]
    query: np.ndarray | None

    @property
    def heads(self) -> int:
        return len(self.value["weights"])

    def norms(self) -> dict[str, np.ndarray]:
        """The norm of the gradient at each step of the chain, (heads,)."""
        found = {step: self.gradient[step] for step in CHAIN if step in self.gradient}
        if self.query is not None:
            found["W_Q"] = self.query
        return {step: np.sqrt((g.astype(np.float64) ** 2).sum(axis=(1, 2))) for step, g in found.items()}


def look(model: Module, loss: Callable[[], Tensor]) -> list[Layer]:
    """Run ``loss().backward()`` on a batch of one row and take down each attention of `model`, layer by layer.

    The gradients of the parameters are put back as they were.

    >>> import tinygrad_attn as ta
    >>> block, x = ta.nn.Block(8, 2, seed=0, causal=True), ta.randn(1, 3, 8)
    >>> layer, = look(block, lambda: (block(x) ** 2).sum())
    >>> layer.value["weights"].shape, layer.query.shape, sorted(layer.norms())
    ((2, 3, 3), (2, 8, 4), ['W_Q', 'mix', 'q', 'scaled', 'scores', 'weights'])
    """
    before = {p: p.grad for p in model.parameters()}
    with watch(model, "*") as seen:
        loss().backward()
    for p, grad in before.items():
        p.grad = grad
    modules = dict(model.named_modules())
    paths = sorted(
        (name.rpartition(".")[0] for name in seen.names if re.fullmatch(r"(.*\.)?weights", name)), key=_in_order
    )
    return [_layer(seen, path, modules[path]) for path in paths]


def _in_order(path: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in path.split(".")]


def _layer(seen: Seen, path: str, attention: Module) -> Layer:
    value: dict[str, np.ndarray] = {}
    gradient: dict[str, np.ndarray] = {}
    for step in STEPS:
        name = f"{path}.{step}" if path else step
        if name in seen:
            value[step] = to_host(seen[name].value.data)[0]  #  (heads, n, ...)
            arrived = _gradient(seen, name)
            if arrived is not None:
                gradient[step] = arrived[0]
    return Layer(value, gradient, _query(seen, path, attention))


def _gradient(seen: Seen, name: str) -> np.ndarray | None:
    try:
        return to_host(seen[name].grad.data)
    except RuntimeError:  # none has reached it
        return None


def _query(seen: Seen, path: str, attention: Module) -> np.ndarray | None:
    """dL/dW_Q, each head's columns apart."""
    for name in ("W_Q", "W_QKV"):
        full = f"{path}.{name}" if path else name
        if full in seen and (whole := _gradient(seen, full)) is not None:
            heads, d_k = attention.n_heads, attention.d_k  # type: ignore[attr-defined]
            parts = whole[:, : heads * d_k].reshape(len(whole), heads, d_k)
            return np.moveaxis(parts, 1, 0)
    return None
