"""LabTable: what every experiment returns.  Rows with units, verdicts on the lesson's sentences, a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..show.table import Column, Table
from .words import Speaker

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]  # (done, total), called as an experiment goes on


def quiet(done: int, total: int) -> None:
    """A progress that shows nothing."""


@dataclass(frozen=True)
class Verdict:
    """A sentence of the lesson, what was measured, and whether the one supports the other."""

    sentence: str
    measured: str
    holds: bool

    def text(self, say: Speaker) -> str:
        verdict = say("HOLDS", "SE CUMPLE") if self.holds else say("DOES NOT HOLD", "NO SE CUMPLE")
        return f"{verdict}: {self.sentence} {say('Measured', 'Medido')}: {self.measured}."


@dataclass(frozen=True)
class Picture:
    """How to draw a table: a line of `y` over `x` for each value of `by`, `spread` as a band, `panel` side by side.

    unit: of `y` as it stands in the rows, where the printed column shows another."""

    x: str
    y: str
    by: Sequence[str] = ()
    spread: str | None = None
    log_x: bool = False
    log_y: bool = False
    panel: str | None = None
    unit: str | None = None


@dataclass(repr=False)
class LabTable(Table):
    """A table that says what it means: printed, drawn in a notebook, plotted, written as CSV.

    units: key of a column -> its unit, for columns that have one.  verdicts: in the order of the lesson.  main: which
    rows are printed (all of them are written and plotted).

    >>> t = LabTable("Squares", [Column("x", "x")], [{"x": 3}], units={"x": "cm"}, verdicts=[Verdict("x is 3.", "3", True)])
    >>> print(t)
    Squares
     x
    cm
     3
    HOLDS: x is 3. Measured: 3.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    picture: Picture | None = None
    main: Callable[[dict[str, Any]], bool] = lambda row: True
    say: Speaker = lambda en, es: en

    def _shown(self) -> Table:
        columns = [
            Column(
                c.key, f"{c.title}\n{self.units[c.key]}" if c.key in self.units else c.title, c.form, c.style, c.left
            )
            for c in self.columns
        ]
        notes = [*self.notes, *(verdict.text(self.say) for verdict in self.verdicts)]
        return Table(self.title, columns, [row for row in self.rows if self.main(row)], notes)

    def __str__(self) -> str:
        return str(self._shown())

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from self._shown().__rich_console__(console, options)

    def to_html(self, path: str | Path | None = None, *, level: int = 2) -> str:
        return self._shown().to_html(path, level=level)

    def column(self, key: str, **where: Any) -> np.ndarray:
        """The values of one column, in the rows where the other columns have the values asked for.

        >>> LabTable("", [], [{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}]).column("b", a=3)
        array([4.])
        """
        return np.array([row[key] for row in self.rows if all(row[k] == value for k, value in where.items())])

    def plot(self) -> Figure:
        """The picture as a matplotlib Figure (the extra ``viz``).

        Errors: ValueError for a table that has none; ImportError without matplotlib."""
        if self.picture is None:
            raise ValueError(f"{self.title!r} has no picture: its rows are not numbers over numbers")
        from .plot import draw

        return draw(self, self.picture)


def mean_and_spread(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean over the seeds, and their standard deviation (0 for a single seed).

    >>> mean_and_spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1)) if array.size > 1 else 0.0


def clearly_above(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> bool:
    """Is the mean accuracy `a` above `b`, both over the same seeds, by more than twice the standard error of their
    difference, and by more than a hundredth (less is of no use to anybody)?

    >>> clearly_above([0.9, 0.8, 1.0], [0.5, 0.4, 0.7]), clearly_above([0.5, 0.4], [0.5, 0.4])
    (True, False)
    """
    mean, spread = mean_and_spread(np.asarray(a, dtype=float) - np.asarray(b, dtype=float))
    return mean > max(2.0 * spread / len(a) ** 0.5, 0.01)
