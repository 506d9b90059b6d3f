"""Table: columns, rows and notes.  One object is printed, drawn in a notebook, and written as CSV, JSON or HTML."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .numbers import number as number  # (its old place, as that of percent)
from .numbers import percent as percent
from .page import page, plain


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
        return _written(text.getvalue(), path)

    def to_json(self, path: str | Path | None = None) -> str:
        """{"title", "notes", "rows"} as JSON, NaN and inf as null; also written to `path` where one is given."""
        rows = [{key: _finite(value) for key, value in row.items()} for row in self.rows]
        whole = {"title": self.title, "notes": list(self.notes), "rows": rows}
        return _written(json.dumps(whole, default=plain, indent=1), path)

    def to_html(self, path: str | Path | None = None, *, level: int = 2) -> str:
        """The table as a part of a page, every text in it escaped; with a `path`, a page of it is written there.

        level: of the heading, from 1 (the page's title) to 6."""

        def cell(tag: str, text: str, left: bool) -> str:
            return f"<{tag}{' class=left' if left else ''}>{html.escape(text).replace(chr(10), '<br>')}</{tag}>"

        head = "".join(cell("th", column.title, column.left) for column in self.columns)
        rows = "".join(
            "<tr>" + "".join(cell("td", column.form(row[column.key]), column.left) for column in self.columns) + "</tr>"
            for row in self.rows
        )
        notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        title = f"<h{level}>{html.escape(self.title)}</h{level}>"
        grid = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        text = f"{title}<div class=scroll tabindex=0>{grid}</div>{notes}"  # the keyboard scrolls it, too
        if path is not None:
            _written(page(self.title, text), path)
        return text

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
        return self.to_html()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """The same for a terminal: rich calls this when the table is printed on a rich console."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        yield Text(self.title, "bold")
        gap = 1 if options.max_width >= 76 else 0  # phones and split windows: every column counts
        drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False)
        for column in self.columns:
            side: Any = "left" if column.left else "right"
            drawn.add_column(Text(column.title), justify=side, vertical="bottom", overflow="fold")
        for row in self.rows:
            cells = [(column, row[column.key]) for column in self.columns]
            drawn.add_row(*[Text(column.form(value), column.style(value)) for column, value in cells])
        yield drawn
        for note in self.notes:
            yield Text(note, "dim")


class Tabled:
    """What is shown as its ``table()``: printed, and drawn in a notebook."""

    def table(self) -> Table:
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and value - value != 0 else value
