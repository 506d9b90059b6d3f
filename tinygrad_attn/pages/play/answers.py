"""What the live page computes: a trained model on your sentence, and random vectors in its place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ...attention import scaled_dot_product_attention
from ...autodiff.functions import cross_entropy, softmax
from ...autodiff.mode import no_grad
from ...autodiff.tensor import Tensor
from ...nn import MultiHeadAttention
from ...nn.module import Module
from ...probe import watch
from ...probe.meters import rows as meters_of
from ...tasks.agreement import LENGTH, VOCABULARY, Ints, agreement, encode
from ...tasks.reader import STEPS, Reader, learn
from ...train.load_run import trained
from ..report.look import Layer, look
from ..report.subject import visible

MASKS = ("causal", "none", "others")  # each word sees: itself and those before it; all; all but itself
WORDS = 24  # shown of a sentence at most
CHARACTERS = 2000  # read of what is typed at most
D_V = 16


def shortened(word: str, most: int = 16) -> str:
    """A word that fits the edge of a matrix."""
    return word if len(word) <= most else word[: most - 1] + "…"


@dataclass(frozen=True)
class Knobs:
    """What can be turned.  scaled: by 1/sqrt(d_k) or by 1.  temperature: divides the scores once more.  mask: one of
    MASKS.  hidden: the place of a word that nobody may look at, or None."""

    scaled: bool = True
    temperature: float = 1.0
    mask: str = "causal"
    hidden: int | None = None

    def scale(self, d_k: int) -> float:
        """
        >>> Knobs(temperature=2.0).scale(16), Knobs(scaled=False).scale(16)
        (0.125, 1.0)
        """
        return (d_k**-0.5 if self.scaled else 1.0) / self.temperature

    def keep(self, n: int) -> np.ndarray:
        """(n, n) booleans: True = may attend.

        >>> Knobs(hidden=0).keep(2)
        array([[False, False],
               [False,  True]])
        """
        keep = {"causal": np.tri(n, dtype=bool), "none": np.ones((n, n), bool), "others": ~np.eye(n, dtype=bool)}[
            self.mask
        ]
        if self.hidden is not None and self.hidden < n:
            keep[:, self.hidden] = False
        return keep


@dataclass(frozen=True)
class Answer:
    """A trained model on some words: its attentions and their gradients, and how probable each answer is.

    target: the answer whose loss the gradients are of; right: is it what the grammar says (None: it has no opinion)."""

    words: list[str]
    layers: list[Layer]
    answers: list[tuple[str, float]]
    target: str
    right: bool | None
    loss: float


class Learned:
    """A trained model that reads sentences.  name: of its task.  logits(tokens, keep): at the last token, (1, answers).
    vocabulary: its tokens.  limit: how many of them it can read.  ask: what the grammar says, where there is one."""

    def __init__(
        self,
        name: str,
        model: Module,
        logits: Callable[[Ints, np.ndarray], Tensor],
        encode: Callable[[str], Ints],
        vocabulary: tuple[str, ...],
        answers: tuple[str, ...],
        limit: int,
        between: str,
        example: str,
        ask: Callable[[str], str] | None = None,
    ) -> None:
        self.name, self.model, self.logits, self.encode, self.vocabulary = name, model, logits, encode, vocabulary
        self.answers, self.limit, self.between, self.example, self._ask = answers, limit, between, example, ask
        self._attentions = [m for _, m in model.named_modules() if isinstance(m, MultiHeadAttention)]
        self._lock = threading.Lock()  # two pages may ask at once, and knobs are turned on the one model

    def parts(self, text: str) -> list[str]:
        """The tokens of a text, known or not."""
        return text[:CHARACTERS].split() if self.between else list(text[:CHARACTERS])

    def unknown(self, text: str) -> list[str]:
        """Those that it does not know, each once."""
        known = set(self.vocabulary)
        return [part for part in dict.fromkeys(self.parts(text)) if part not in known]

    def read(self, text: str, knobs: Knobs = Knobs()) -> Answer:
        """Errors: ValueError for an empty text, unknown tokens, or more than it can read."""
        parts = self.parts(text)
        if not parts or len(parts) > self.limit:
            raise ValueError(f"expected 1 to {self.limit} tokens, got {len(parts)}")
        tokens, keep = self.encode(self.between.join(parts)), knobs.keep(len(parts))
        with self._lock, self._turned(knobs):
            with no_grad():
                first = self.logits(tokens, keep)
            probabilities = softmax(first).numpy()[0].astype(float)
            target, right = self._target(text, probabilities)
            loss = float(cross_entropy(first, np.array([target])).item())
            layers = look(self.model, lambda: cross_entropy(self.logits(tokens, keep), np.array([target])))
        order = np.argsort(-probabilities)[:3]
        shown = [(visible(self.answers[i]), float(probabilities[i])) for i in order]
        return Answer([visible(part) for part in parts], layers, shown, visible(self.answers[target]), right, loss)

    def _target(self, text: str, probabilities: np.ndarray) -> tuple[int, bool | None]:
        """What the grammar says, where it has an opinion; else what the model says."""
        if self._ask is not None:
            try:
                right = self.answers.index(self._ask(" ".join(self.parts(text))))
                return right, bool(right == probabilities.argmax())
            except ValueError:
                pass
        return int(probabilities.argmax()), None

    @contextmanager
    def _turned(self, knobs: Knobs) -> Iterator[None]:
        """The model's attentions with another scale, and with no mask but the one they are given, for a while."""
        before = [(attention.scale, attention.causal) for attention in self._attentions]
        try:
            for attention in self._attentions:
                attention.scale, attention.causal = knobs.scale(attention.d_k), False
            yield
        finally:
            for attention, (scale, causal) in zip(self._attentions, before):
                attention.scale, attention.causal = scale, causal


def learn_now(seed: int = 0, on_step: Callable[[int, float], None] = lambda step, loss: None) -> Learned:
    """A Reader that learns the agreement task in a second or two."""
    task, example = agreement(seed), "I work , you work , he ___"
    reader = Reader(len(task.answers), seed)
    learn(reader, task, seed, STEPS, on_step=on_step)

    def logits(tokens: Ints, keep: np.ndarray) -> Tensor:  # as Reader.forward, for any length, at the last word
        x = reader.block(reader.token(tokens[None]) + reader.position(np.arange(len(tokens))), mask=keep)
        return reader.answer(reader.norm(x[:, -1]))

    return Learned("agreement", reader, logits, encode, VOCABULARY, task.answers, LENGTH, " ", example, task.ask)


def learned(folder: Path) -> Learned:
    """The best checkpoint of a run.  Errors: as those of ``train.reading.trained``."""
    model, task = trained(folder)
    rows = task.held_out()
    stop = int(np.flatnonzero(rows.targets[0] >= 0)[0]) + 1
    example = task.decode(rows.tokens[0, : stop if task.exact and stop > 1 else min(WORDS, task.context)])
    limit = min(task.context, WORDS)

    def logits(tokens: Ints, keep: np.ndarray) -> Tensor:  # as MiniGPT.forward, with a mask
        x = model.tokens(tokens[None]) + model.positions(np.arange(len(tokens)))
        for block in model.blocks:
            x = block(x, mask=keep)
        x = model.norm(x)[:, -1]
        return x @ model.tokens.W.mT if model.head is None else model.head(x)

    return Learned(
        task.name, model, logits, task.encode, task.vocabulary, task.vocabulary, limit, task.between, example
    )


@dataclass(frozen=True)
class Bench:
    """Attention over random vectors: value and gradient of each step (n, n) or (n, d_v), and the meters of its rows."""

    words: list[str]
    value: dict[str, np.ndarray]
    gradient: dict[str, np.ndarray]
    score_std: float
    entropy: float
    jacobian: float
    row_gradient: float
    dead: float


def bench(words: list[str], d_k: int, seed: int = 0, knobs: Knobs = Knobs()) -> Bench:
    """One head of width d_k: q, k, v ~ N(0, 1), drawn from the seed and each word with its place; dL/d(out) ~ N(0, 1)/4.

    The same word at the same place draws the same vectors, whatever else the sentence says.  In float64.

    >>> found = bench("a soft dictionary".split(), 64)
    >>> found.value["weights"].shape, np.allclose(found.value["weights"].sum(axis=-1), 1)
    ((3, 3), True)
    """
    if not words:
        raise ValueError("expected at least one word")
    draws = [
        np.random.default_rng([seed, place, crc32(word.encode("utf-8", "replace"))]) for place, word in enumerate(words)
    ]
    q, k, v, g = (np.stack([rng.standard_normal(width) for rng in draws]) for width in (d_k, d_k, D_V, D_V))
    keep = knobs.keep(len(words))
    with watch() as seen:
        out, weights = scaled_dot_product_attention(Tensor(q, requires_grad=True), k, v, keep, scale=knobs.scale(d_k))
        out.backward(g / 4)
    names = [name for name in ("scores", "scaled", "masked", "weights", "mix") if name in seen]
    value: dict[str, Any] = {name: seen[name].value.numpy() for name in names}
    gradient = {name: seen[name].grad.numpy() for name in names}
    meters = meters_of(weights.numpy(), keep)
    choice = meters.valid > 1  # a row with one key has no gradient to lose
    norms = np.linalg.norm(gradient["scaled"], axis=-1)[choice]
    visible_scores = value["scaled"][keep]

    def middle(x: np.ndarray) -> float:
        return float(np.median(x)) if x.size else float("nan")

    return Bench(
        [shortened(word) for word in words], value, gradient,
        score_std=float(visible_scores.std()) if visible_scores.size else float("nan"),
        entropy=float(meters.entropy[choice].mean()) if choice.any() else float("nan"),
        jacobian=middle(meters.jacobian[choice]),
        row_gradient=middle(norms),
        dead=float((norms < 1e-3).mean()) if norms.size else float("nan"),
    )  # fmt: skip
