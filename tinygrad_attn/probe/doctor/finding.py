"""Finding: one thing that the doctor has to say; Report: all of them.  Their texts lie in kinds.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ...show import Column, Table, Tabled

KINDS: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "kinds.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Finding:
    """kind: a short name.  where: the user's line.  what: was found.  why: it matters.  change: what to do."""

    kind: str
    where: str
    what: str
    why: str
    change: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.where}\n  what    {self.what}\n  why     {self.why}\n  change  {self.change}"


Findings = Iterator[Finding]


def found(kind: str, where: str, what: str, case: str = "", **words: Any) -> Finding:
    """The finding with the texts of its kind: of its `case` where that has its own; `words` fill in {gaps}.
    A kind like "mask: empty rows" is the case "empty rows" of "mask".

    >>> print(found("stepped twice", "train.py:3", "W: in two optimisers"))
    stepped twice at train.py:3
      what    W: in two optimisers
      why     each step moves it twice
      change  leave it to one of them
    """
    name, _, after = kind.partition(": ")
    texts = KINDS[name] | KINDS[name].get(case or after, {})
    return Finding(kind, where, what, texts["why"].format(**words), texts["change"].format(**words))


class Report(list[Finding], Tabled):
    """The findings, the gravest first; notes: what could not be looked at."""

    def __init__(self, findings: Iterable[Finding], notes: list[str]) -> None:
        super().__init__(findings)
        self.notes = notes

    @property
    def kinds(self) -> list[str]:
        return [finding.kind for finding in self]

    def table(self) -> Table:
        columns = [Column(key, key, left=True) for key in ("kind", "where", "what", "why", "change")]
        return Table("Doctor", columns, [vars(finding) for finding in self], self.notes)

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.notes]
        return "\n\n".join([*map(str, self), *notes] if self else ["No finding.", *notes])


def joined(names: list[str], most: int = 6) -> str:
    """``W_Q, W_K and 3 more``"""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def first_index(bad: Any) -> tuple[int, ...]:
    """Where the first True is."""
    return tuple(int(i) for i in next(zip(*bad.nonzero()), ()))
