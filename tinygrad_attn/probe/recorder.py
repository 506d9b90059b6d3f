"""Recorder: the saturation meters during training; a row per head per recorded step, and an alarm."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

from ..autodiff.mode import current, watching
from ..files.jsonl import keep_lines, whole_lines
from ..nn.module import Module
from ..show import Column
from ..show.numbers import number, percent, share_style
from ..show.table import Table, Tabled
from .meters import DEAD_BELOW, Meter, by_head, meter, rows
from .watch import heads_by_path


class Alarm(NamedTuple):
    """A head died: from this step on, a share `dead` of its rows lets less than the threshold through."""

    step: int
    name: str
    head: int | None
    dead: float

    def __str__(self) -> str:
        head = "" if self.head is None else f", head {self.head}"
        return (
            f"step {self.step}: {self.name}{head} has died: the softmax of {self.dead:.0%} of its rows passes no "
            f"gradient; look at the size of its scores (is the 1/sqrt(d_k) there?), or lower the learning rate"
        )


class Recorder(Tabled):
    """``with recorder.at(step): ...forward...`` reads the meters of every attention at each `every`-th step.

    model: tells how many heads a batchless model has.  path: a JSONL file, one row per head and recorded step,
    appended and flushed.  dead: the share of dead rows from which a head counts as dead.  on_alarm: called with an
    Alarm (default: a warning).  In all other steps nothing is watched and nothing costs anything.

    >>> import tinygrad_attn as ta
    >>> recorder = Recorder(every=1)
    >>> with recorder.at(0):
    ...     out = ta.scaled_dot_product_attention(ta.zeros((1, 2)), ta.ones((4, 2)), ta.ones((4, 2)))
    >>> recorder.rows[0]["entropy"], recorder.rows[0]["largest"], recorder.rows[0]["dead"]
    (1.0, 0.25, 0.0)
    """

    def __init__(
        self,
        model: Module | None = None,
        path: str | Path | None = None,
        every: int = 10,
        dead: float = 0.99,
        dead_below: float = DEAD_BELOW,
        on_alarm: Callable[[Alarm], None] | None = None,
    ) -> None:
        if every < 1:
            raise ValueError(f"Recorder: expected every >= 1, got {every}")
        self.every, self.dead, self.dead_below = every, dead, dead_below
        self.path = None if path is None else Path(path)
        self.rows: list[dict[str, Any]] = []
        self.alarms: list[Alarm] = []
        self._heads, self._on_alarm = heads_by_path(model), on_alarm or _warn
        self._down: set[tuple[str, int | None]] = set()

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Read the meters inside, at each `every`-th step."""
        if step % self.every:
            yield
            return
        outer, found, hidden = current().watcher, {}, {}  # type: ignore[var-annotated]

        def look(path: str, tensor: Any) -> None:
            if outer is not None:
                outer(path, tensor)
            prefix, _, name = path.rpartition(".")
            if name == "masked":
                hidden[get_ident(), prefix] = tensor._data > -float("inf")
            elif name == "weights":
                per_head = self._read(prefix, tensor._data, hidden.pop((get_ident(), prefix), None))
                for head, one in per_head:
                    found.setdefault((path, head), []).append(one)

        look.values_only = outer is None or getattr(outer, "values_only", False)  # type: ignore[attr-defined]
        with watching(look):
            yield
        self._write(step, found)

    def _read(self, prefix: str, weights: Any, keep: Any) -> list[tuple[int | None, Meter]]:
        all_rows = rows(weights, keep)
        heads = self._heads.get(prefix)
        if weights.ndim >= 4 or (weights.ndim == 3 and heads == weights.shape[-3]):
            return list(enumerate(by_head(all_rows, self.dead_below)))
        return [(None, meter(all_rows, self.dead_below))]

    def _write(self, step: int, found: dict[tuple[str, int | None], list[Meter]]) -> None:
        if not found:
            raise RuntimeError("the meters saw nothing: no attention ran inside `with recorder.at(step)`")
        new = []
        for (name, head), several in found.items():
            one = _mean(several)
            new.append({"step": step, "name": name, "head": head, **one._asdict()})
            down = one.dead >= self.dead
            if down and (name, head) not in self._down:
                alarm = Alarm(step, name, head, one.dead)
                self.alarms.append(alarm)
                self._on_alarm(alarm)
            (self._down.add if down else self._down.discard)((name, head))
        self.rows += new
        if self.path is not None:
            if len(self.rows) == len(new):
                self._forget_from(step)
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({k: v if v == v else None for k, v in row.items()}) + "\n" for row in new)

    def _forget_from(self, step: int) -> None:
        """A run that resumes writes these steps anew: the lines of them, and one cut off by a crash, go first."""
        assert self.path is not None
        keep_lines(self.path, lambda row: row["step"] < step)

    # ------------------------------------------------------------------------ reading

    @property
    def latest(self) -> list[dict[str, Any]]:
        """The rows of the last recorded step, one per head."""
        return [row for row in self.rows if row["step"] == self.rows[-1]["step"]]

    def table(self) -> Table:
        """The last recorded step, the most saturated head first."""
        return meters_table(self.latest)


def meters_table(found: list[dict[str, Any]]) -> Table:
    """Rows of a history as a table, the most saturated head first."""
    if not found:
        raise RuntimeError("no meters were recorded yet: run a forward pass inside `with recorder.at(step)`")
    ordered = sorted(found, key=lambda row: (row["step"], -row["dead"], _last_if_nan(row["entropy"])))
    columns = [
        Column("step", "step"),
        Column("name", "name", left=True),
        Column("head", "head", lambda head: "" if head is None else str(head)),
        Column("entropy", "entropy/\nlog keys", number),
        Column("largest", "largest\nweight", number),
        Column("jacobian", "softmax\nJacobian", number),
        Column("dead", "dead\nrows", percent, share_style),
    ]
    return Table("Saturation", columns, ordered, ["means over rows with a choice; the Jacobian's norm: median"])


def read_history(path: str | Path) -> list[dict[str, Any]]:
    """The rows that a Recorder wrote to `path`; a last line cut off by a crash is left out."""

    def read(key: str, value: Any) -> Any:
        return float("nan") if value is None and key != "head" else value

    return [{key: read(key, value) for key, value in row.items()} for _, row in whole_lines(Path(path))]


def _mean(several: list[Meter]) -> Meter:
    """Several calls in one step (micro-batches), weighted by their rows."""
    total = sum(one.rows for one in several)
    if len(several) == 1 or not total:
        return several[0]
    entropy, largest, jacobian, dead = (sum(one[i] * one.rows for one in several if one.rows) / total for i in range(4))
    return Meter(entropy, largest, jacobian, dead, total)


def _last_if_nan(value: float | None) -> float:
    return value if value is not None and value == value else float("inf")


def _warn(alarm: Alarm) -> None:
    warnings.warn(str(alarm), stacklevel=2)
