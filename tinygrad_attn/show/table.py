"""Table: columns, rows and notes.  One object is printed, written as CSV and put into JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Column:
    """key: the name in rows, CSV and JSON.  title: what the reader sees; it may have line breaks.
    form: how a value is written.  style: a rich style for a value, such as a colour by size."""

    key: str
    title: str
    form: Callable[[Any], str] = str
    style: Callable[[Any], str] = lambda value: ""
    left: bool = False


@dataclass(repr=False)
class Table:
    """Rows of values (full precision) and how to write them.

    >>> t = Table("Squares", [Column("x", "x"), Column("y", "x^2", "{:.2f}".format)], [{"x": 3, "y": 9.0}], ["a note"])
    >>> print(t)
    Squares
    x   x^2
    3  9.00
    a note
    >>> t.to_csv()
    'x,y\\n3,9.0\\n'
    """

    title: str
    columns: Sequence[Column]
    rows: list[dict[str, Any]]
    notes: Sequence[str] = field(default_factory=list)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The values as CSV text, one line per row; also written to `path` where one is given."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [c.key for c in self.columns], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def __str__(self) -> str:
        """Plain text, aligned."""
        heads = [column.title.split("\n") for column in self.columns]
        deep = max(map(len, heads))
        lines = [["" for _ in range(deep - len(head))] + head for head in heads]  # titles stand at the bottom
        cells = [[line[i] for line in lines] for i in range(deep)]
        cells += [[column.form(row[column.key]) for column in self.columns] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells)]
        pads = [str.ljust if column.left else str.rjust for column in self.columns]
        body = ["  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths)).rstrip() for row in cells]
        return "\n".join([self.title, *body, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .page import table_html

        return table_html(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """The same for a terminal: rich calls this when the table is printed on a rich console."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        yield Text(self.title, "bold")
        gap = 1 if options.max_width >= 76 else 0  # phones and split windows: every column counts
        drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False)
        for column in self.columns:
            drawn.add_column(
                Text(column.title), justify="left" if column.left else "right", vertical="bottom", overflow="fold"
            )
        for row in self.rows:
            drawn.add_row(
                *[Text(column.form(row[column.key]), column.style(row[column.key])) for column in self.columns]
            )
        yield drawn
        for note in self.notes:
            yield Text(note, "dim")


def number(value: float | None, digits: int = 3) -> str:
    """A number in the fewest characters that keep `digits` digits; None is a dash.

    >>> number(0.26), number(0.0000111), number(33.4567), number(0.0), number(None)
    ('0.26', '1.11e-05', '33.5', '0', '-')
    """
    return "-" if value is None else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """
    >>> percent(0.0136), percent(0.0), percent(1.0), percent(0.9995)
    ('1.4%', '0%', '100%', '99.95%')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    text = f"{100 * share:.1f}"
    return f"{100 * share:.2f}%" if text in ("0.0", "100.0") else f"{text}%"
