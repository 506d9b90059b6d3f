"""Self-graded exercises for the lessons: the right answer gets a tick, a known mistake its own hint.

question = Exercise(say("What is 2 + 3?", "¿Cuánto es 2 + 3?"), right=5, hint=say("Count.", "Cuenta."), say=say)
question()      asks
question(6)     ✗ Count.
question(5)     ✓ Right.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from .words import Speaker


class Exercise:
    """One question with its right answer.

    right: a number, a nested list of numbers, or a word; numbers count as equal within `tolerance` of their size.
    hint: for any wrong answer.  mistakes: pairs (wrong answer, hint) for those that people make.

    >>> from tinygrad_attn.lab.words import speaker
    >>> exercise = Exercise("2 + 3?", 5, "Count.", [(6, "That is 2 * 3.")], say=speaker("en"))
    >>> exercise(6)
    ✗ That is 2 * 3.
    False
    >>> exercise([5.0])
    ✓ Right.
    True
    """

    def __init__(
        self,
        question: str,
        right: Any,
        hint: str,
        mistakes: Sequence[tuple[Any, str]] = (),
        *,
        tolerance: float = 1e-3,
        say: Speaker,
    ) -> None:
        self.question, self.right, self.hint, self.mistakes = question, right, hint, list(mistakes)
        self.tolerance, self.say = tolerance, say

    def __call__(self, answer: Any = None) -> bool | None:
        """Print the verdict on `answer`; None asks the question and judges nothing."""
        if answer is None:
            print(f"? {self.question}")
            return None
        if self._equal(answer, self.right):
            print(self.say("✓ Right.", "✓ Correcto."))
            return True
        print("✗ " + next((hint for wrong, hint in self.mistakes if self._equal(answer, wrong)), self.hint))
        return False

    def _equal(self, answer: Any, other: Any) -> bool:
        if isinstance(other, str):
            return isinstance(answer, str) and _bare(answer) == _bare(other)
        try:
            given, wanted = np.asarray(answer, dtype=float), np.asarray(other, dtype=float)
        except (TypeError, ValueError):
            return False
        if given.size != wanted.size or (wanted.ndim > 1 and given.shape != wanted.shape):
            return False
        close = np.isclose(given.ravel(), wanted.ravel(), rtol=self.tolerance, atol=self.tolerance * 1e-3)
        return bool(close.all())


def _bare(word: str) -> str:
    """A word as it is compared: without capitals, accents and outer spaces.

    >>> _bare(" Sí ")
    'si'
    """
    return "".join(c for c in unicodedata.normalize("NFD", word.strip().casefold()) if not unicodedata.combining(c))
