"""Seen: what a watch has seen, asked by name.  A question without an answer raises and says why; never a 0."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..autodiff.tensor import Tensor
from ..show import Column
from ..show.numbers import number, percent, share_style
from ..show.table import Table, Tabled
from .capture import AttentionCall, Capture


class Watched:
    """One name: all its visits, the last one by default.  ``.value`` and ``.grad`` are Tensors without history.

    Each forward pass that makes the name is one visit; a module that runs twice makes two."""

    def __init__(self, path: str, visits: list[Capture], head: int | None = None) -> None:
        self.path, self.visits, self._head = path, visits, head

    def __len__(self) -> int:
        return len(self.visits)

    def __getitem__(self, number: int) -> Watched:
        """One of the visits: ``seen[name][0]`` is the first.  Errors: IndexError when there is no such visit."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self.path} went by {len(self)} time(s), asked for visit {number}")
        return Watched(self.path, [self.visits[number]], self._head)

    def head(self, number: int) -> Watched:
        """One head alone.  Errors: IndexError when there is no such head."""
        count = self.visits[-1].count()
        if not -count <= number < count:
            raise IndexError(f"{self.path} has {count} head(s), asked for head {number}")
        return Watched(self.path, self.visits, number)

    @property
    def heads(self) -> int:
        return self.visits[-1].count()

    @property
    def line(self) -> str:
        """The user's line that made it."""
        return self.visits[-1].line

    @property
    def value(self) -> Tensor:
        visit = self.visits[-1]
        return Tensor(visit.data if self._head is None else visit.of_head(visit.data, self._head))

    @property
    def grad(self) -> Tensor:
        """dL/d(this).  Errors: RuntimeError when there is none, saying why."""
        visit = self.visits[-1]
        if visit.gradient is None:
            raise RuntimeError(_no_gradient(visit))
        return Tensor(visit.gradient if self._head is None else visit.of_head(visit.gradient, self._head))

    @property
    def kinds(self) -> np.ndarray:
        """For each gradient entry its kind of zero (``probe.KINDS``)."""
        self.grad  # noqa: B018  raises where there is none
        visit = self.visits[-1]
        return visit.kinds() if self._head is None else visit.of_head(visit.kinds(), self._head)

    def __repr__(self) -> str:
        got = "no gradient yet" if self.visits[-1].gradient is None else "gradient seen"
        return f"Watched({self.path!r}, {len(self)} visit(s), {self.heads} head(s), {got})"


def _no_gradient(visit: Capture) -> str:
    if not visit.wants:
        return (
            f"{visit.path} has no gradient: nothing it was made from has requires_grad=True, or it was made under "
            f"no_grad (made at {visit.line})"
        )
    return (
        f"no gradient has reached {visit.path} (made at {visit.line}): call loss.backward() first; if that has run, "
        f"the loss does not depend on this tensor, or backward ran outside of what was watched"
    )


class Seen(Tabled):
    """Everything that one watch has seen: ``seen[path]``, ``seen.names``, ``seen.table()``."""

    def __init__(self, patterns: tuple[str, ...], dead: float) -> None:
        self.patterns, self.dead = patterns, dead
        self.captures: dict[str, list[Capture]] = {}
        self.passed: dict[str, None] = {}  # every name that went by, watched or not

    @property
    def names(self) -> list[str]:
        return list(self.captures)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, path: object) -> bool:
        return path in self.names

    def __getitem__(self, path: str) -> Watched:
        """What was seen under `path`.  Errors: KeyError with near names; RuntimeError when nothing ran inside."""
        if path in self.captures:
            return Watched(path, self.captures[path])
        raise self.missing(path)

    def missing(self, path: str) -> Exception:
        """What is wrong with asking for `path`: nothing ran, it was not asked for, or no such name (and near names)."""
        if not self.passed:
            return RuntimeError(
                "the watch saw nothing: no named tensor was made inside its block; put the forward pass inside "
                "`with probe.watch(...)`"
            )
        if path in self.passed:
            patterns = ", ".join(map(repr, self.patterns))
            return KeyError(f"{path!r} went by but was not asked for; the watch has the patterns {patterns}")
        last = path.rpartition(".")[2]  # "*.score": it is the last word that is nearly right

        def likeness(name: str) -> float:
            alike = difflib.SequenceMatcher
            return alike(None, last, name.rpartition(".")[2]).ratio() + alike(None, path, name).ratio() / 2

        near = sorted(self.captures or self.passed, key=likeness, reverse=True)[:3]
        return KeyError(f"no tensor named {path!r} was watched; near names: {', '.join(near)}")

    @property
    def attentions(self) -> list[str]:
        """The paths of the attentions that ran ("" without a module)."""
        return [name.rpartition(".")[0] for name in self.names if name.rpartition(".")[2] == "weights"]

    def attention(self, path: str = "") -> AttentionCall:
        """The last call of one attention: ``.steps["scores"].data`` (..., heads, n_q, n_k), and ``.gradient``.

        Errors: those of ``seen[path.weights]``."""
        return self[f"{path}.weights" if path else "weights"].visits[-1].call

    # ------------------------------------------------------------------------ tables

    def table(self, visit: int | None = -1) -> Table:
        """A row per name and head, worst first: broken numbers, then the largest share of dead rows, then the
        smallest median.  visit: which one (default the last; None: all of them).

        Errors: IndexError where a name has no such visit; RuntimeError when nothing ran inside."""
        rows: list[dict[str, Any]] = []
        waiting = []
        for path, visits in self.captures.items():
            chosen = list(enumerate(visits)) if visit is None else [(visit % len(visits), self[path][visit].visits[0])]
            for place, one in chosen:
                if one.gradient is None:
                    waiting.append(path)
                    continue
                for head, found in enumerate(one.spreads(self.dead)):
                    shown = head if one.head_axis() is not None else None
                    rows.append({"name": path, "head": shown, "visit": place, **vars(found), "line": one.line})
        if not rows and not waiting:
            raise self.missing("table")
        rows.sort(key=lambda row: (-row["nonfinite"], -row["dead"], row["median"], row["name"], row["head"] or 0))
        return Table("Gradients, worst first", _columns(rows, visit is None), rows, self._notes(waiting))

    def _notes(self, waiting: list[str]) -> list[str]:
        notes = [
            "low, median, high: 5, 50, 95 % quantiles of the row norms",
            f"dead: rows below {self.dead:g} of what arrived (at the weights; for others: of the largest row)",
            "zeros: structural (masked: exactly 0), underflow (below the dtype), rounding (lost), untold",
        ]
        if waiting:
            notes.append(f"no gradient yet (call loss.backward()): {', '.join(dict.fromkeys(waiting))}")
        return notes

    def to_csv(self, path: str | Path | None = None) -> str:
        return self.table(None).to_csv(path)

    def to_json(self, path: str | Path | None = None) -> str:
        return self.table(None).to_json(path)

    def to_html(self, path: str | Path) -> None:
        self.table(None).to_html(path)


def _columns(rows: list[dict[str, Any]], all_visits: bool) -> list[Column]:
    """The columns that say something: heads, visits and kinds of zero only where there are any."""

    def count(n: int) -> str:
        return f"{n:,}" if n else "."

    def bad(n: float) -> str:
        return "bold red" if n else ""

    columns = [
        Column("name", "name", left=True),
        Column("head", "head", lambda head: "" if head is None else str(head)),
        Column("visit", "visit", str),
        Column("low", "low", number),
        Column("median", "median", number),
        Column("high", "high", number),
        Column("dead", "dead", percent, share_style),
        Column("structural", "zeros:\nstruct.", count),
        Column("underflow", "under-\nflow", count, bad),
        Column("rounding", "round-\ning", count, bad),
        Column("untold", "untold", count),
        Column("nonfinite", "NaN,\ninf", count, bad),
    ]
    optional = {"structural", "underflow", "rounding", "untold", "nonfinite"}
    silent = {key for key in optional if not any(row[key] for row in rows)} | (set() if all_visits else {"visit"})
    if all(row["head"] is None for row in rows):
        silent.add("head")
    return [column for column in columns if column.key not in silent]
