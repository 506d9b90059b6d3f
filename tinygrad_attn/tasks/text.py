"""Real text, character by character: by default the language reference that ships inside every Python.

A file of any size is read through a memory map: one pass checks that it is UTF-8 and collects its characters;
after that only the rows that a batch needs are touched.  The last tenth is held out.
"""

from __future__ import annotations

import codecs
import hashlib
import mmap
from pathlib import Path

import numpy as np

from .letters import TRAINING, Batch, Ints, Task, integers

_PIECE = 1 << 20  # bytes of a file that are looked at together
_FINE = 1 << 16  # a start is drawn as one of 2^32 fractions, in two steps, so that files above 4 GB are covered too


class Text(Task):
    """Rows of `context` characters from random places; each one's target is the next character.

    path: a UTF-8 file, or None for ``pydoc_data.topics`` (half a megabyte; differs between Python versions).

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
        self._bytes = _reference() if path is None else _mapped(Path(path))
        characters, length, self.digest = _scanned(self._bytes, self.called)
        if length < 2 * (context + 1):
            raise ValueError(
                f"{self.called}: {length} characters are too few for a context of {context}; expected at least "
                f"{2 * (context + 1)}: a row and its next character to train on, and one held out"
            )
        self.vocabulary = tuple(characters)
        points = np.array([ord(c) for c in characters])
        self._token_of = np.zeros(points.max() + 1, np.int64)
        self._token_of[points] = np.arange(len(points))
        size = len(self._bytes)
        self._cut = min(self._back_to_start(size - size // 10), self._before(size, context + 1))
        self._last = self._before(self._cut, context + 1)  # the last place where a training row may start
        if self._last < 0:
            self._cut = self._before(size, context + 1)
            self._last = self._before(self._cut, context + 1)
        self._held_out = held_out

    def rows(self, first: int, count: int) -> Batch:
        drawn = integers((self.seed, TRAINING), first, count, 2, _FINE)  #                  (count, 2)
        where = (drawn[:, 0] * _FINE + drawn[:, 1]) / _FINE**2  #                           [0, 1)
        return self._cut_out([int(x * (self._last + 1)) for x in where])

    def held_out(self) -> Batch:
        """Rows at even distances over the last tenth."""
        first, last = self._cut, self._before(len(self._bytes), self.context + 1)
        starts = np.linspace(first, last, max(min(self._held_out, 1 + (last - first) // self.context), 1))
        return self._cut_out([int(start) for start in starts])

    def _cut_out(self, starts: list[int]) -> Batch:
        """The rows that begin at these bytes (or at the character that a byte belongs to)."""
        longest = 4 * (self.context + 1)  # UTF-8 takes at most 4 bytes for a character
        pieces = []
        for start in map(self._back_to_start, starts):
            text = bytes(self._bytes[start : start + longest]).decode(
                "utf-8", "ignore"
            )  # (the end may cut a character)
            pieces.append(text[: self.context + 1])
        points = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
        tokens = self._token_of[points].reshape(len(pieces), self.context + 1)
        return Batch(tokens[:, :-1], tokens[:, 1:])

    def _back_to_start(self, place: int) -> int:
        """The first byte of the character to which byte `place` belongs."""
        while 0 < place < len(self._bytes) and self._bytes[place] & 0xC0 == 0x80:
            place -= 1
        return place

    def _before(self, place: int, characters: int) -> int:
        """Where the last `characters` characters before byte `place` begin; -1 where there are fewer."""
        for _ in range(characters):
            if place <= 0:
                return -1
            place = self._back_to_start(place - 1)
        return place


def _reference() -> bytes:
    from pydoc_data.topics import topics

    return "\n".join(topics[name].strip() + "\n" for name in sorted(topics)).encode()


def _mapped(path: Path) -> bytes | mmap.mmap:
    try:
        with open(path, "rb") as file:
            if path.stat().st_size == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise type(error)(f"cannot read the text {path}: {error.strerror or error}") from None


def _scanned(data: bytes | mmap.mmap, called: str) -> tuple[list[str], int, str]:
    """The characters of a text in order, how many there are in all, and a digest of the bytes."""
    decoder, digest = codecs.getincrementaldecoder("utf-8")(), hashlib.sha256()
    found: set[str] = set()
    length = 0
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        waiting = len(decoder.getstate()[0])  # bytes of a character that began in the piece before
        try:
            text = decoder.decode(piece, final=start + _PIECE >= len(data))
        except UnicodeDecodeError as error:
            at = start - waiting + error.start
            raise ValueError(
                f"{called}: not UTF-8: byte {at} is 0x{data[at]:02x} ({error.reason}); convert the file to UTF-8 first"
            ) from None
        found.update(text)
        length += len(text)
        digest.update(piece)
    return sorted(found), length, digest.hexdigest()


__all__ = ["Ints", "Text"]
