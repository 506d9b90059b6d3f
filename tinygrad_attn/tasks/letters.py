"""Tasks as data: an endless, numbered stream of training rows, and a fixed list of held-out rows.

    copy        a b c d = a b c d          say it again
    reverse     a b c d = d c b a          say it backwards
    induction   c a b d  b c ...           what followed this letter last time?
    agreement   I work , you work , he __  bare or -s? (agreement.py)
    text        characters of a real text, each the answer to those before it (text.py)

Row number n is a function of (seed, n) alone, by a counter-based generator.  So step s of a run with batches
of B rows reads the rows s B to s B + B - 1; a run that resumes reads what it would have read; and N workers
that share a batch read together what one would have read.

A held-out row never appears in training: the rows are split by a checksum of their letters (see `_Letters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..autodiff.random import bits
from .agreement import BLANK_AT, ENDINGS, LENGTH, VOCABULARY, Ints, agreement, numbered

IGNORED = -100  # a target that does not count
TRAINING, HELD_OUT = 1, 2  # the second word of a stream's key


class Batch(NamedTuple):
    """Rows of tokens (rows, T) and the token that is right behind each, or IGNORED, (rows, T)."""

    tokens: Ints
    targets: Ints


class Task(Protocol):
    """What a model is trained on.  A task of your own derives from this class and defines `rows` and `held_out`.

    vocabulary: its tokens.  context: tokens in a row.  exact: is an answer right or wrong?  (Then held-out
    accuracy counts.)  answers: how many tokens are sampled to show what was learnt.  between: what is written
    between two tokens."""

    name: str
    vocabulary: tuple[str, ...]
    context: int
    exact: bool = True
    answers: int = 1
    between: str = " "

    def rows(self, first: int, count: int) -> Batch:
        """Training rows number `first` to first + count - 1."""

    def held_out(self) -> Batch:
        """The rows to judge a model by."""

    def encode(self, text: str) -> Ints:
        """Text to tokens, (n,).  Errors: ValueError naming what is not in the vocabulary."""
        return numbered(text.split() if self.between else text, self.vocabulary)

    def decode(self, tokens: Sequence[int] | Ints) -> str:
        """Tokens to text."""
        return self.between.join(self.vocabulary[i] for i in tokens)


def integers(key: tuple[int, int], first: int, rows: int, width: int, below: int) -> Ints:
    """Whole numbers from 0 to below - 1, (rows, width): row i is that of number first + i under `key`.

    >>> a = integers((7, 1), 0, 4, 3, below=10)
    >>> bool((a[2:] == integers((7, 1), 2, 2, 3, below=10)).all()), a.shape
    (True, (4, 3))
    """
    return (bits(key, first, rows, width).astype(np.uint64) * np.uint64(below) >> np.uint64(32)).astype(np.int64)


# ---------------------------------------------------------------------------- letters


LETTERS = tuple("abcdefghijklmnop")
_N, _ORDERED = len(LETTERS), 8


class _Letters(Task):
    """Tasks on random letters.  The sum of a row's letters modulo their number decides: 0 is held out, others train."""

    def __init__(self, seed: int, held_out: int = 512) -> None:
        self.seed, self._held_out = seed, held_out

    def rows(self, first: int, count: int) -> Batch:
        return self.posed(self.drawn((self.seed, TRAINING), first, count, held_out=False))

    def held_out(self) -> Batch:
        return self.posed(self.drawn((self.seed, HELD_OUT), 0, self._held_out, held_out=True))

    def drawn(self, key: tuple[int, int], first: int, count: int, held_out: bool) -> Ints:
        """Random letters, (count, ...), of one side of the split."""
        raise NotImplementedError

    def posed(self, letters: Ints) -> Batch:
        """The question, and the answers, about some letters."""
        raise NotImplementedError


def _shift(checksum: Ints, held_out: bool) -> Ints:
    """What must be added, so that the checksum is 0 in held-out rows and anything else in the others."""
    return -checksum if held_out else (checksum == 0).astype(np.int64)


class Copy(_Letters):
    """Eight letters, =, and the same eight again.

    >>> row = Copy(seed=0).rows(0, 1)
    >>> Copy(seed=0).decode(row.tokens[0])
    'p n e m b k o h = p n e m b k o'
    >>> [t for t in row.targets[0].tolist() if t >= 0] == row.tokens[0, :8].tolist()
    True
    """

    name = "copy"
    vocabulary = (*LETTERS, "=")
    length = answers = 8
    context = 2 * length

    def drawn(self, key: tuple[int, int], first: int, count: int, held_out: bool) -> Ints:
        letters = integers(key, first, count, self.length, _N)  #                 (count, 8)
        checksum = letters.sum(axis=1) % _N
        letters[:, 0] = (letters[:, 0] + _shift(checksum, held_out)) % _N
        return letters

    def answer(self, letters: Ints) -> Ints:
        return letters

    def posed(self, letters: Ints) -> Batch:
        equals = np.full((len(letters), 1), _N)
        whole = np.concatenate([letters, equals, self.answer(letters)], axis=1)  # (count, 17)
        targets = whole[:, 1:].copy()
        targets[:, : self.length] = IGNORED
        return Batch(whole[:, :-1], targets)


class Reverse(Copy):
    """Eight letters, =, and the same eight backwards."""

    name = "reverse"

    def answer(self, letters: Ints) -> Ints:
        return letters[:, ::-1]


class Induction(_Letters):
    """Eight letters in one order, then in another; at each place of the second half: which letter came
    behind this one in the first half?  (Of the letter that ended it: the one that began the second.)

    Nothing about the letters helps, only their order in this row: a model must find the last time, and look one on.
    Source: Olsson et al. 2022, In-context Learning and Induction Heads.

    >>> tokens, targets = Induction(seed=0).rows(0, 1)
    >>> here = tokens[0, 10]; before = tokens[0].tolist().index(here)
    >>> bool(targets[0, 10] == tokens[0, before + 1])
    True
    """

    name = "induction"
    vocabulary = LETTERS[:_ORDERED]
    context = 2 * _ORDERED

    def drawn(self, key: tuple[int, int], first: int, count: int, held_out: bool) -> Ints:
        numbers = bits(key, first, count, 2 * _ORDERED).reshape(count, 2, _ORDERED)
        orders = numbers.argsort(axis=2, kind="stable")  #                        (count, 2, 8)
        checksum = (orders[:, 0, 0] + orders[:, 1, 0]) % _ORDERED
        shift = _shift(checksum, held_out)[:, None]
        orders[:, 1] = (orders[:, 1] + shift) % _ORDERED  #                       another order of the same letters
        return orders.reshape(count, 2 * _ORDERED)

    def posed(self, letters: Ints) -> Batch:
        before = letters[:, :_ORDERED].argsort(axis=1)  #                         where each letter stood
        targets = np.full_like(letters, IGNORED)
        targets[:, _ORDERED:] = np.take_along_axis(letters, np.take_along_axis(before, letters[:, _ORDERED:], 1) + 1, 1)
        return Batch(letters, targets)


# ---------------------------------------------------------------------------- agreement


class AgreementRows(Task):
    """The agreement task as rows: the blank's target is the ending; nothing else is asked.

    >>> task = AgreementRows(seed=0)
    >>> tokens, targets = task.rows(0, 2)
    >>> tokens.shape, targets[0].tolist()[:-1], task.vocabulary[targets[0, -1]]
    ((2, 8), [-100, -100, -100, -100, -100, -100, -100], 'bare')
    """

    name = "agreement"
    vocabulary = VOCABULARY + ENDINGS
    context = LENGTH

    def __init__(self, seed: int) -> None:
        self.seed, self._task = seed, agreement(seed)

    def rows(self, first: int, count: int) -> Batch:
        picked = integers((self.seed, TRAINING), first, count, 1, len(self._task.train))[:, 0]
        return self._posed(self._task.train.tokens[picked], self._task.train.labels[picked])

    def held_out(self) -> Batch:
        return self._posed(self._task.held_out.tokens, self._task.held_out.labels)

    def _posed(self, tokens: Ints, labels: Ints) -> Batch:
        targets = np.full_like(tokens, IGNORED)
        targets[:, BLANK_AT] = len(VOCABULARY) + labels
        return Batch(tokens, targets)
