"""Real text, character by character: by default the language reference that ships inside every Python.

The text is read once and held as numbers, four bytes a character.  The last tenth is held out.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from .letters import TRAINING, Batch, Ints, Task, integers

_FINE = (
    1 << 16
)  # a start is one of 2^32 fractions, drawn in two steps: texts above 65,536 characters are covered evenly


class Text(Task):
    """Rows of `context` characters from random places; each one's target is the next character.

    path: a UTF-8 file, or None for ``pydoc_data.topics`` (half a megabyte; differs between Python versions).
    While it is read, a file takes up to six times its size in memory, and four times from then on.

    Errors: OSError for a file that cannot be read, ValueError for bytes that are no UTF-8 (with their place) and
    for a text shorter than two rows (one to train on, one held out).

    >>> task = Text(seed=0, context=32)
    >>> tokens, targets = task.rows(0, 4)
    >>> tokens.shape, bool((tokens[:, 1:] == targets[:, :-1]).all())
    ((4, 32), True)
    """

    name = "text"
    exact = False
    answers = 200
    between = ""

    def __init__(self, seed: int, context: int, path: str | Path | None = None, held_out: int = 256) -> None:
        self.seed, self.context, self.called = seed, context, "pydoc_data.topics" if path is None else str(path)
        data = _reference() if path is None else _read(Path(path))
        self.digest = hashlib.sha256(data).hexdigest()
        text = _decoded(data, self.called)
        if len(text) < 2 * (context + 1):
            raise ValueError(
                f"{self.called}: {len(text)} characters are too few for a context of {context}; expected at least "
                f"{2 * (context + 1)}: a row and its next character to train on, and one held out"
            )
        self.vocabulary = tuple(sorted(set(text)))
        self._points = np.frombuffer(text.encode("utf-32-le"), np.uint32)  # (characters,) their numbers in Unicode
        self._token_of = np.zeros(ord(self.vocabulary[-1]) + 1, np.int64)
        self._token_of[[ord(c) for c in self.vocabulary]] = np.arange(len(self.vocabulary))
        self._cut = min(len(text) - len(text) // 10, len(text) - (context + 1))  # here the held-out part begins
        self._held_out = held_out

    def rows(self, first: int, count: int) -> Batch:
        places = 1 + self._cut - (self.context + 1)  # where a training row may start
        drawn = integers((self.seed, TRAINING), first, count, 2, _FINE)  #            (count, 2)
        where = (drawn[:, 0] * _FINE + drawn[:, 1]) / _FINE**2  #                     (count,), in [0, 1)
        return self._cut_out(where * places)

    def held_out(self) -> Batch:
        """Rows at even distances over the last tenth."""
        first, last = self._cut, len(self._points) - (self.context + 1)
        return self._cut_out(np.linspace(first, last, max(min(self._held_out, 1 + (last - first) // self.context), 1)))

    def _cut_out(self, starts: np.ndarray) -> Batch:
        """The rows that begin at these places, each with its next character behind it."""
        places = starts.astype(np.int64)[:, None] + np.arange(self.context + 1)  #    (rows, context + 1)
        tokens: Ints = self._token_of[self._points[places]]
        return Batch(tokens[:, :-1], tokens[:, 1:])


def _reference() -> bytes:
    from pydoc_data.topics import topics

    return "\n".join(topics[name].strip() + "\n" for name in sorted(topics)).encode()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise type(error)(f"cannot read the text {path}: {error.strerror or error}") from None


def _decoded(data: bytes, called: str) -> str:
    try:
        return data.decode("utf-8-sig")  # (an editor's mark in front is no character of the text)
    except UnicodeDecodeError as error:
        at = f"byte {error.start} is 0x{data[error.start]:02x} ({error.reason})"
        raise ValueError(f"{called}: not UTF-8: {at}; convert the file to UTF-8 first") from None
