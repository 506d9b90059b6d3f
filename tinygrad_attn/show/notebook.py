"""What a notebook shows of a tensor: its last two axes as a table, a darker cell for a larger number."""

from __future__ import annotations

import html
import math

import numpy as np

MOST = 16  # rows and columns shown


def array_html(values: np.ndarray, title: str) -> str:
    """A table of (..., n, m) numbers, the first matrix where there are several; blue above 0, red below.

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
    largest = float(np.abs(shown[np.isfinite(shown)]).max(initial=0.0))
    rows = "".join(f"<tr>{''.join(_cell(float(x), largest) for x in row)}</tr>" for row in shown)
    return f"<div><small>{'; '.join(notes)}</small><table>{rows}</table></div>"


def _cell(x: float, largest: float) -> str:
    share = 55 * abs(x) / largest if largest and np.isfinite(x) else 0.0
    colour = "11,87,208" if x > 0 else "194,65,12"
    return f'<td style="text-align:right;background:rgba({colour},{share / 100:.2f})">{x:.3g}</td>'
