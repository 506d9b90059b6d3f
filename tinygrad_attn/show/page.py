"""Pages that open from disk: one HTML file, no network, light and dark, readable on a phone."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from . import Table

_STYLE = """
:root{color-scheme:light dark;
  --ink:#1c1c1c;--paper:#fff;--dim:#5c5c5c;--line:#d5d5d5;
  --mark:#0b57d0;--shade:#f3f5f8;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--paper:#151718;--dim:#a3a3a3;--line:#3a3d40;
  --mark:#8ab4f8;--shade:#202426;--bad:#f2b8b5}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:1.3rem;margin:.2rem 0 .6rem}h2{font-size:1.05rem;margin:1.2rem 0 .4rem}
h3{font-size:.9rem;color:var(--dim);margin:.6rem 0 .2rem}h1,h2,h3{overflow-wrap:anywhere}
p{margin:.4rem 0}.dim,.note{color:var(--dim);font-size:.9rem}.bad{color:var(--bad)}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{vertical-align:bottom;color:var(--dim);font-weight:600}.left{text-align:left}
pre,code{font:.85rem/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
pre{background:var(--shade);padding:.6rem;border-radius:.4rem;margin:.3rem 0}
button,input,select{font:inherit;color:inherit;background:var(--shade);border:1px solid var(--line);border-radius:.4rem;
  padding:.45rem .8rem;min-height:2.6rem}
button:focus-visible,input:focus-visible,li:focus-visible{outline:3px solid var(--mark);outline-offset:1px}
"""


def page(title: str, body: str, style: str = "", script: str = "") -> str:
    """A whole HTML document; `body` is HTML already, `title` is text."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}{style}</style></head>\n<body>\n{body}\n"
        + (f"<script>{script}</script>" if script else "")
        + "</body></html>\n"
    )


def as_json(value: Any) -> str:
    """`value` as JSON that may stand inside a <script>: no tag can be closed or opened by it.

    >>> as_json("</script>")
    '"\\\\u003c/script>"'
    """
    return (
        json.dumps(value, default=_plain)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def table_html(table: Table) -> str:
    """A table as HTML; every text in it is escaped."""

    def cell(tag: str, text: str, left: bool) -> str:
        return f"<{tag}{' class=left' if left else ''}>{html.escape(text).replace(chr(10), '<br>')}</{tag}>"

    head = "".join(cell("th", column.title, column.left) for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(cell("td", column.form(row[column.key]), column.left) for column in table.columns) + "</tr>"
        for row in table.rows
    )
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.notes)
    title = f"<h2>{html.escape(table.title)}</h2>"
    return f"{title}<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"


class ProbeTable(Table):
    """A table of the probe: printed in a terminal, drawn in a notebook, written as CSV, JSON or HTML."""

    def _repr_html_(self) -> str:
        return table_html(self)

    def to_html(self, path: str | Path) -> None:
        """One file that opens from disk."""
        Path(path).write_text(page(self.title, table_html(self)), encoding="utf-8")

    def to_json(self, path: str | Path | None = None) -> str:
        """{"title", "notes", "rows"}; NaN and inf are written as null and strings are kept as they are."""
        rows = [{key: _finite(value) for key, value in row.items()} for row in self.rows]
        text = json.dumps({"title": self.title, "notes": list(self.notes), "rows": rows}, default=_plain, indent=1)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and value - value != 0 else value
