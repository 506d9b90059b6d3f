"""What the live page computes: a trained model on your sentence, and random vectors in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ...attention import scaled_dot_product_attention
from ...autodiff.tensor import Tensor
from ...lab.reading import SENTENCE
from ...nn import MultiHeadAttention
from ...nn.module import Module
from ...probe import watch
from ...probe.meters import meters
from ...tasks.agreement import LENGTH, VOCABULARY, Ints, agreement, encode
from ...tasks.reader import STEPS, Reader, learn
from ...train.load_run import trained
from ..look import Answer, ask, visible

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
        masks = {"causal": np.tri(n, dtype=bool), "none": np.ones((n, n), bool), "others": ~np.eye(n, dtype=bool)}
        keep = masks[self.mask]
        if self.hidden is not None and self.hidden < n:
            keep[:, self.hidden] = False
        return keep


@dataclass(frozen=True)
class Learned:
    """A trained model that reads sentences.

    name: of its task.  encode: text to tokens (n,).  vocabulary: all tokens.  answers: what it can answer.  limit: how
    many tokens it reads.  between: what is written between two of them.  grammar: the right answer to a text; it raises
    ValueError where it has no opinion."""

    name: str
    model: Module
    encode: Callable[[str], Ints]
    vocabulary: tuple[str, ...]
    answers: tuple[str, ...]
    limit: int
    between: str
    example: str
    grammar: Callable[[str], str] | None = None

    def parts(self, text: str) -> list[str]:
        """The tokens of a text, known or not."""
        return text[:CHARACTERS].split() if self.between else list(text[:CHARACTERS])

    def words(self, text: str) -> list[str]:
        """The tokens as they are shown."""
        return [visible(part) for part in self.parts(text)]

    def unknown(self, text: str) -> list[str]:
        """Those that it does not know, each once."""
        known = set(self.vocabulary)
        return [part for part in dict.fromkeys(self.parts(text)) if part not in known]

    def logits(self, tokens: Ints, keep: np.ndarray, scale: float | None = None) -> Tensor:
        """At the last token, (1, answers).  keep: (n, n), who may look at whom, in place of the model's own mask."""
        found = self.model(tokens[None], mask=keep, causal=False, scale=scale)
        return found[:, -1] if found.ndim == 3 else found  # a Reader answers at its last token only

    def read(self, text: str, knobs: Knobs = Knobs()) -> Answer:
        """Errors: ValueError for an empty text, unknown tokens, or more than it can read."""
        parts = self.parts(text)
        if not parts or len(parts) > self.limit:
            raise ValueError(f"expected 1 to {self.limit} tokens, got {len(parts)}")
        tokens, keep, scale = self.encode(self.between.join(parts)), knobs.keep(len(parts)), knobs.scale(self._d_k())
        return ask(self.model, lambda: self.logits(tokens, keep, scale), self.answers, self._right(parts))

    def _d_k(self) -> int:
        return next(m.d_k for _, m in self.model.named_modules() if isinstance(m, MultiHeadAttention))

    def _right(self, parts: list[str]) -> int | None:
        """The place of the answer that the grammar asks for."""
        try:
            return None if self.grammar is None else self.answers.index(self.grammar(" ".join(parts)))
        except ValueError:  # no sentence of its language
            return None


def learn_now(seed: int = 0, on_step: Callable[[int, float], None] = lambda step, loss: None) -> Learned:
    """A Reader that learns the agreement task in a second or two."""
    task = agreement(seed)
    reader = Reader(len(task.answers), seed)
    learn(reader, task, seed, STEPS, on_step=on_step)
    return Learned("agreement", reader, encode, VOCABULARY, task.answers, LENGTH, " ", SENTENCE, task.ask)


def learned(folder: Path) -> Learned:
    """The best checkpoint of a run.  Errors: as those of ``train.load_run.trained``."""
    model, task = trained(folder)
    rows = task.held_out()
    stop = int(np.flatnonzero(rows.targets[0] >= 0)[0]) + 1
    example = task.decode(rows.tokens[0, : stop if task.exact and stop > 1 else min(WORDS, task.context)])
    limit = min(task.context, WORDS)
    return Learned(task.name, model, task.encode, task.vocabulary, task.vocabulary, limit, task.between, example)


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
    """One head of width d_k, in float64: q, k, v ~ N(0, 1), dL/d(out) ~ N(0, 1)/4, drawn from the seed and the word.

    The same word at the same place draws the same vectors, whatever else the sentence says.

    >>> found = bench("a soft dictionary".split(), 64)
    >>> found.value["weights"].shape, np.allclose(found.value["weights"].sum(axis=-1), 1)
    ((3, 3), True)
    """
    if not words:
        raise ValueError("expected at least one word")
    draws = [np.random.default_rng([seed, i, crc32(word.encode("utf-8", "replace"))]) for i, word in enumerate(words)]
    q, k, v, g = (np.stack([rng.standard_normal(width) for rng in draws]) for width in (d_k, d_k, D_V, D_V))
    keep = knobs.keep(len(words))
    with watch() as seen:
        out, weights = scaled_dot_product_attention(Tensor(q, requires_grad=True), k, v, keep, scale=knobs.scale(d_k))
        out.backward(g / 4)
    names = [name for name in ("scores", "scaled", "masked", "weights", "mix") if name in seen]
    value = {name: seen[name].value.numpy() for name in names}
    gradient = {name: seen[name].grad.numpy() for name in names}
    (meter,) = meters(weights.numpy(), keep)
    choice = keep.sum(axis=-1) > 1  # a row with one key has no gradient to lose
    norms = np.linalg.norm(gradient["scaled"], axis=-1)[choice]
    return Bench(
        [shortened(word) for word in words], value, gradient,
        score_std=_of(np.std, value["scaled"][keep]),
        entropy=meter.entropy,
        jacobian=meter.jacobian,
        row_gradient=_of(np.median, norms),
        dead=_of(np.mean, norms < 1e-3),
    )  # fmt: skip


def _of(statistic: Callable[..., Any], x: np.ndarray) -> float:
    """NaN of nothing, without a warning."""
    return float(statistic(x)) if x.size else float("nan")
