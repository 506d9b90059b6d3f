"""Pages that open from disk: one HTML file, no network, light and dark, readable on a phone."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any

_STYLE = """
:root{color-scheme:light dark;
  --ink:#1c1c1c;--paper:#fff;--dim:#5c5c5c;--line:#d5d5d5;
  --mark:#0b57d0;--shade:#f3f5f8;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--paper:#151718;--dim:#a3a3a3;--line:#3a3d40;
  --mark:#8ab4f8;--shade:#202426;--bad:#f2b8b5}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;font:16px/1.5 system-ui,sans-serif;
  color:var(--ink);background:var(--paper)}
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


def page(title: str, body: str, style: str = "", script: str = "", *, lang: str = "en") -> str:
    """A whole HTML document; `body` is HTML already, `title` is text.  lang: of its words, such as "es"."""
    return (
        f'<!doctype html>\n<html lang="{html.escape(lang)}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}{style}</style></head>\n<body>\n{body}\n"
        + (f"<script>{script}</script>" if script else "")
        + "</body></html>\n"
    )


def as_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """`value` as JSON that may stand inside a <script>: no tag can be closed or opened by it.
    default: gives what JSON holds of anything else (None: ``plain``).

    >>> as_json("</script>")
    '"\\\\u003c/script>"'
    """
    return (
        json.dumps(value, default=default or plain)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def plain(value: Any) -> Any:
    """What JSON can hold, for ``json.dumps(default=...)``: an array as a list, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
