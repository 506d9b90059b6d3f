"""Finding: one thing that the doctor has to say; Report: all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...autodiff.graph import Node
from ...show import Column
from ...show.table import Table


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


class Report(list[Finding]):
    """The findings, the gravest first; notes: what could not be looked at."""

    def __init__(self, findings: list[Finding], notes: list[str]) -> None:
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

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def line_of(node: Node) -> str:
    return node.line


def joined(names: list[str], most: int = 6) -> str:
    """``W_Q, W_K and 3 more``"""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def first_index(bad: Any) -> tuple[int, ...]:
    """Where the first True is."""
    return tuple(int(i) for i in next(zip(*bad.nonzero()), ()))
