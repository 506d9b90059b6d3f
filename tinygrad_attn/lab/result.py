"""LabTable: what every experiment returns.  Rows with units, verdicts on the lesson's sentences, a picture.

Below it: what several experiments write into their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..show.numbers import number, percent
from ..show.table import Column, Table
from .plot import Picture, draw
from .words import spanish, spoken

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """A sentence of the lesson, what was measured, and whether the one supports the other."""

    sentence: str
    measured: str
    holds: bool

    def text(self, language: str = "en") -> str:
        say = partial(spoken, language=language)
        verdict = say("HOLDS" if self.holds else "DOES NOT HOLD")
        return f"{verdict}: {say(self.sentence)} {say('Measured')}: {say(self.measured)}."


@dataclass(repr=False)
class LabTable(Table):
    """A table that says what it means: printed, drawn in a notebook, plotted, written as CSV.

    units: key of a column -> its unit, for columns that have one.  verdicts: in the order of the lesson.  main: which
    rows are printed (all of them are written and plotted).  language: in which it is printed and drawn; all texts
    inside are English.

    >>> t = LabTable("Squares", [Column("x", "x")], [{"x": 3}], verdicts=[Verdict("x is 3.", "3", True)])
    >>> print(t)
    Squares
    x
    3
    HOLDS: x is 3. Measured: 3.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    picture: Picture | None = None
    main: Callable[[Row], bool] = lambda row: True
    language: str = "en"

    def spoken(self) -> Table:
        """All rows, in the language of the table."""
        say = partial(spoken, language=self.language)
        columns = [replace(column, title=say(column.title), form=self._form(column)) for column in self.columns]
        return Table(say(self.title), columns, self.rows, [say(note) for note in self.notes])

    def _form(self, column: Column) -> Callable[[Any], str]:
        """How a cell is written: a word is looked up as "key: word", because "scaled" is not the same of everything."""

        def form(value: Any) -> str:
            text = column.form(value)
            word = self.language != "en" and isinstance(value, str | bool)
            return spanish().get(f"{column.key}: {text}", text) if word else text

        return form

    def shown(self) -> Table:
        """What is printed: the main rows, units in the heads, verdicts below."""
        table = self.spoken()
        heads = [f"{c.title}\n{self.units[c.key]}" if c.key in self.units else c.title for c in table.columns]
        columns = [replace(column, title=head) for column, head in zip(table.columns, heads)]
        notes = [*table.notes, *(verdict.text(self.language) for verdict in self.verdicts)]
        return Table(table.title, columns, [row for row in self.rows if self.main(row)], notes)

    def __str__(self) -> str:
        return str(self.shown())

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from self.shown().__rich_console__(console, options)

    def to_html(self, path: str | Path | None = None, *, level: int = 2) -> str:
        return self.shown().to_html(path, level=level)

    def column(self, key: str, **where: Any) -> np.ndarray:
        """The values of one column, in the rows where the other columns have the values asked for.

        >>> LabTable("", [], [{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}]).column("b", a=3)
        array([4.])
        """
        return np.array([row[key] for row in matching(self.rows, where)])

    def plot(self) -> Figure:
        """The picture as a matplotlib Figure (the extra ``viz``).

        Errors: ValueError for a table that has none; ImportError without matplotlib."""
        if self.picture is None:
            raise ValueError(f"{self.title!r} has no picture: its rows are not numbers over numbers")
        return draw(self.spoken(), self.picture, self.units)


def matching(rows: Sequence[Row], where: Mapping[str, Any]) -> list[Row]:
    """The rows that have the values asked for.

    >>> matching([{"a": 1}, {"a": 2}], {"a": 2})
    [{'a': 2}]
    """
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


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


two_digits = partial(number, digits=2)

# the mean accuracy over the seeds, and its standard deviation
ACCURACY = (Column("accuracy", "accuracy", percent), Column("spread", "spread", "{:.3f}".format))


def accuracy(values: Sequence[float]) -> dict[str, float]:
    """What the columns ACCURACY show of the accuracies of all seeds.

    >>> accuracy([0.5, 0.5])
    {'accuracy': 0.5, 'spread': 0.0}
    """
    return dict(zip(("accuracy", "spread"), mean_and_spread(values)))


def yes_or_no(key: str, title: str) -> Column:
    """A column of booleans.

    >>> yes_or_no("tied", "W_Q = W_K").form(True)
    'yes'
    """
    return Column(key, title, lambda holds: "yes" if holds else "no", left=True)


def slashed(form: Callable[[Any], str], values: Iterable[Any]) -> str:
    """Several values in one line.

    >>> slashed(percent, [0.25, 1.0])
    '25.0% / 100%'
    """
    return " / ".join(map(form, values))
