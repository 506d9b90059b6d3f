"""A matrix as a picture: a darker cell is a larger number.  As HTML, in a page or in a notebook, and as text.

(With matplotlib: ``draw_matrix`` in pictures.py.)"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence

import numpy as np

from .numbers import number, short

MOST = 16  # rows and columns that a notebook shows
MANY = 10  # columns: beyond, the cells of a page are narrow and get no numbers
SHADES, ASCII_SHADES = " ░▒▓█", " .:*#"  # a weight's fifth of [0, 1]


def matrix_html(
    values: np.ndarray, rows: Sequence[str], columns: Sequence[str], keep: np.ndarray | None = None, *,
    caption: str, signed: bool = True, name: str = "",
) -> str:  # fmt: skip
    """A figure for a page with the style sheet matrix.css: numbers (n, m) with named rows and columns.

    keep: False is hatched.  signed: red below 0, shaded by the largest size; else from 0 to 1.  name: `caption` for
    scripts.  Every word is escaped."""
    largest = _largest(values) if signed else 1.0
    unit = 10.0 ** np.floor(np.log10(largest)) if signed and largest > 0 and not 0.1 <= largest < 1000 else 1.0
    many = len(columns) > MANY
    turned = (many and max(map(len, columns)) > 1) or max(map(len, columns)) > 6
    head = "".join(f"<th scope=col><span><bdi>{html.escape(word)}</bdi></span></th>" for word in columns)
    shown = np.where(True if keep is None else keep, values, np.nan)
    body = "".join(
        f"<tr><th scope=row><bdi>{html.escape(word)}</bdi></th>{''.join(_cells(row, largest, unit, signed, many))}</tr>"
        for word, row in zip(rows, shown)
    )
    size = f"{len(values)} × {len(columns)}" + (f" · ×{unit:.0e}" if unit != 1.0 else "")
    widths = f"<colgroup><col class=names>{'<col>' * len(columns)}</colgroup>"
    names, least = max(map(len, rows)) * 0.62 + 0.8, len(columns) * 0.55 if many else 0
    return (
        f"<figure><figcaption>{html.escape(caption)} <small>{size}</small></figcaption>"
        f'<div class=matrix-box tabindex=0><table class="matrix{" wide" if many else ""}" '
        f'data-name="{html.escape(name or caption, quote=True)}" '
        f'style="--names:{names:.1f}em;--least:{least}rem">{widths}'
        f"<thead{' class=turned' if turned else ''}><tr><td style='background:none'></td>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></figure>"
    )


def _cells(row: np.ndarray, largest: float, unit: float, signed: bool, many: bool) -> Iterator[str]:
    for x in map(float, row):
        if not math.isfinite(x):
            yield "<td class=unseen></td>"
            continue
        share = abs(x) / largest if largest else 0.0
        share = share**0.5 if many and not signed else share  # many keys, small weights: they still show
        kind = "strong" if share > 0.75 else "middle" if share > 0.55 else "weak"
        yield (
            f'<td class={kind} data-value="{x:.9g}" title="{x:.4g}" '
            f'style="--hue:var(--{"warm" if x < 0 else "mark"});--share:{100 * share:.1f}%">'
            f"{'' if many else short(x / unit, signed)}</td>"
        )


def array_html(values: np.ndarray, title: str) -> str:
    """What a notebook shows of a tensor: (..., n, m) numbers, the first matrix of several; blue above 0, red below.

    The colours stand in the cells: a notebook that is not trusted drops style sheets.

    >>> text = array_html(np.eye(2), "weights")
    >>> text.count("<td"), "weights (2, 2)" in text
    (4, True)
    """
    notes = [f"{html.escape(title)} {values.shape}, {values.dtype}"]
    matrix = np.atleast_2d(values[(0,) * (values.ndim - 2)] if values.size else np.zeros((0, 0)))
    if values.ndim > 2:
        notes.append(f"the first of {math.prod(values.shape[:-2]):,} matrices")
    if max(matrix.shape, default=0) > MOST:
        notes.append(f"its first {min(MOST, matrix.shape[0])} rows and {min(MOST, matrix.shape[1])} columns")
    shown = matrix[:MOST, :MOST].astype(np.float64)
    largest = _largest(shown)

    def cell(x: float) -> str:
        share = 0.55 * abs(x) / largest if largest and math.isfinite(x) else 0.0
        colour = "11,87,208" if x > 0 else "194,65,12"
        return f'<td style="text-align:right;background:rgba({colour},{share:.2f})">{number(x, nan="nan")}</td>'

    rows = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in shown.tolist())
    return f"<div><small>{'; '.join(notes)}</small><table>{rows}</table></div>"


def _largest(values: np.ndarray) -> float:
    """The largest size among the finite numbers; 0 where there are none."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def matrix_text(weights: np.ndarray, words: Sequence[str], shades: str = SHADES) -> list[str]:
    """Weights (n, m) from 0 to 1 as n lines of shades, each behind its word: a darker cell is a larger weight.

    >>> for line in matrix_text(np.array([[1.0, 0.0], [0.3, 0.7]]), ["he", "___"]):
    ...     print(line)
     he ██
    ___ ░░▓▓
    """
    from rich.cells import cell_len

    width = max(map(cell_len, words))  # of the terminal's cells: an emoji takes two
    level = np.minimum((weights * len(shades)).astype(int), len(shades) - 1)
    return [
        f"{' ' * (width - cell_len(word))}{word} {''.join(2 * shades[i] for i in row)}".rstrip()
        for word, row in zip(words, level)
    ]
