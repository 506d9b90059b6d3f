"""One sentence, forward and backward: every step of every attention, head by head, and what the model answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..autodiff.arrays import to_host
from ..autodiff.backward import grad
from ..autodiff.functions import cross_entropy, softmax
from ..autodiff.mode import no_grad
from ..autodiff.tensor import Tensor
from ..nn import MultiHeadAttention
from ..nn.module import Module
from ..probe import watch
from ..probe.seen import Seen

STEPS = ("q", "k", "v", "scores", "scaled", "masked", "weights", "mix")
CHAIN = ("mix", "weights", "scaled", "scores", "q", "W_Q")  # what dL/dout passes on its way to W_Q


@dataclass(frozen=True)
class Layer:
    """One attention: value and gradient of each step, (heads, n, d) or (heads, n, n).

    query: the gradient of each head's part of W_Q, (heads, d_model, d_k).  A gradient that did not arrive is absent."""

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


@dataclass(frozen=True)
class Answer:
    """What a model makes of one sentence.

    layers: its attentions.  answers: the three most probable, with their probabilities.  target: the answer whose loss
    (in nats) the gradients are of; right: is it the most probable one (None: nobody said what is right)?  step: after
    how many steps of its training, where the model was asked several times."""

    layers: list[Layer]
    answers: list[tuple[str, float]]
    target: str
    right: bool | None
    loss: float
    step: int


def ask(
    model: Module, logits: Callable[[], Tensor], names: Sequence[str], target: int | None = None, step: int = 0
) -> Answer:
    """Run ``logits()``, (1, answers), forward and backward.

    names: of the answers.  target: which one is right; None takes the model's own answer."""
    with no_grad():
        first = logits()
    probabilities = softmax(first).numpy()[0].astype(float)
    asked = np.array([probabilities.argmax() if target is None else target])
    layers = look(model, lambda: cross_entropy(logits(), asked))
    best = [(visible(names[i]), float(probabilities[i])) for i in np.argsort(-probabilities)[:3]]
    right = None if target is None else bool(target == probabilities.argmax())
    return Answer(layers, best, visible(names[asked[0]]), right, float(cross_entropy(first, asked).item()), step)


def look(model: Module, loss: Callable[[], Tensor]) -> list[Layer]:
    """Run ``loss()`` and its backward pass on a batch of one row; give each attention of `model`, layer by layer.

    No ``.grad`` is touched: threads may look at one model at the same time.

    >>> import tinygrad_attn as ta
    >>> block, x = ta.nn.Block(8, 2, seed=0, causal=True), ta.randn(1, 3, 8)
    >>> layer, = look(block, lambda: (block(x) ** 2).sum())
    >>> layer.value["weights"].shape, layer.query.shape, sorted(layer.norms())
    ((2, 3, 3), (2, 8, 4), ['W_Q', 'mix', 'q', 'scaled', 'scores', 'weights'])
    """
    with watch() as seen:
        total = loss()
    modules = {f"{path}." if path else "": m for path, m in model.named_modules()}
    ran = {path: m for path, m in modules.items() if isinstance(m, MultiHeadAttention) and f"{path}weights" in seen}
    matrices = {path: m.W_QKV if m.packed else m.W_Q for path, m in ran.items()}
    learned = {path: W for path, W in matrices.items() if W.requires_grad}
    queries = dict(zip(learned, grad(total, learned.values())))  # the watch sees all that goes by
    return [_layer(seen, path, attention, queries.get(path)) for path, attention in ran.items()]


def _layer(seen: Seen, path: str, attention: MultiHeadAttention, query: Tensor | None) -> Layer:
    """path: of the attention, with its dot.  query: dL/dW_Q, or dL/dW_QKV, all heads side by side."""
    found = {step: seen[path + step].visits[-1] for step in STEPS if path + step in seen}
    value = {step: to_host(visit.data)[0] for step, visit in found.items()}  #  (heads, n, ...)
    gradient = {step: to_host(visit.gradient)[0] for step, visit in found.items() if visit.gradient is not None}
    if query is None:
        return Layer(value, gradient, None)
    heads, d_k = attention.n_heads, attention.d_k
    parts = to_host(query.data)[:, : heads * d_k].reshape(-1, heads, d_k)
    return Layer(value, gradient, np.moveaxis(parts, 1, 0))


def visible(token: str) -> str:
    """A token that can be seen: a space and the end of a line have signs.

    >>> visible(" "), visible("he")
    ('␣', 'he')
    """
    return token.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
