"""Pictures with matplotlib (the extra `viz`): attention as a map, score gradients as distributions.

Each function gives a matplotlib Figure.  No pyplot, so no global state and no window.  Sized for a phone
held upright: one column, large type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .numbers import percent, short

INK, QUIET, GRID, HIDDEN = "#1b2733", "#5b6875", "#d9dee3", "#eceff2"
SCALED, UNSCALED = "#1f6fb2", "#d1495b"
BLUES = LinearSegmentedColormap.from_list("weights", ["#f4f8fc", "#9cc4e4", "#1f6fb2", "#0b2f55"])
DPI = 160


def attention_picture(weights: np.ndarray, words: Sequence[str], answer: str) -> Figure:
    """weights (heads, n, n) on a sentence of n words: the mean over the heads, and the last row head by head."""
    heads, n, _ = weights.shape
    figure = Figure(figsize=(6, 8.6), dpi=DPI, layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=[n, 0.72 * (heads + 1)])

    mean = weights.mean(axis=0)
    hidden = np.triu(np.ones((n, n), bool), 1)
    draw_matrix(top, np.where(hidden, np.nan, mean), words, words, numbers=True)
    top.set_xlabel("key: the token that is looked at", color=QUIET, fontsize=12)
    top.set_ylabel("query: the token that looks", color=QUIET)
    question = f"Where does the blank look?  It answers {answer}"
    top.set_title(question, loc="left", color=INK, fontsize=15, weight="bold", pad=12)
    top.add_patch(Rectangle((-0.5, n - 1.5), n, 1, fill=False, ec=UNSCALED, lw=2.5, clip_on=False))
    top.text(n - 1, 0, "hidden: tokens\nto come", ha="right", va="center", color=QUIET, fontsize=11)

    rows = np.vstack([weights[:, -1], mean[-1]])  #  (heads + 1, n)
    draw_matrix(bottom, rows, [*(f"head {h}" for h in range(heads)), "mean"], words, numbers=True)
    bottom.set_title("Row 7, head by head", loc="left", color=INK, fontsize=13, weight="bold")
    bottom.axhline(heads - 0.5, color="white", lw=5)
    return figure


def draw_matrix(
    axes: Any,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    numbers: bool = False,
    size: float = 13,
) -> None:
    """Weights (n, m) from 0 to 1 on matplotlib axes, NaN where nothing may be seen, with the names of rows and columns.

    numbers: write each weight into its cell.  size: of the names, in points."""
    axes.set_facecolor(HIDDEN)
    axes.imshow(values, cmap=BLUES, vmin=0, vmax=1, aspect="auto" if numbers else "equal")
    axes.set_xticks(range(len(columns)), columns, fontsize=size, color=INK)
    axes.set_yticks(range(len(rows)), rows, fontsize=size, color=INK)
    axes.tick_params(length=0)
    bare(axes)
    for (i, j), weight in np.ndenumerate(values) if numbers else ():
        if not np.isnan(weight):
            colour = "white" if weight > 0.45 else INK
            axes.text(j, i, short(weight, signed=False), ha="center", va="center", fontsize=11, color=colour)


def bare(axes: Any) -> None:
    """No box around the picture."""
    axes.spines[:].set_visible(False)


def gradient_picture(norms: Mapping[tuple[int, bool], np.ndarray]) -> Figure:
    """norms: row norms of dL/dS for each (d_k, scaled): a pair of distributions per d_k, on a log axis."""
    figure = Figure(figsize=(6, 6.6), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    widths = sorted({d_k for d_k, _ in norms})
    bottom, top = -9.0, 0.7
    for i, d_k in enumerate(widths):
        for scaled in (True, False):
            logs = np.log10(np.maximum(norms[d_k, scaled], 10.0**bottom / 10))
            _half(axes, i, logs, bottom, top, -1 if scaled else 1, SCALED if scaled else UNSCALED)
        dead, below = (float((norms[d_k, False] < edge).mean()) for edge in (1e-3, 10.0**bottom))
        x, lost = i - 0.04, f"{percent(dead)}\ndead"
        axes.text(x, bottom + 0.8, lost, color=UNSCALED, fontsize=13, weight="bold", ha="right")
        if below >= 0.01:
            axes.text(x, bottom + 0.1, f"{percent(below)} below\nthe axis", color=QUIET, fontsize=9.5, ha="right")
    axes.axhspan(bottom, -3, color=HIDDEN, lw=0, zorder=0)
    axes.text(-0.5, -3.15, "dead: below 1e-3", color=QUIET, fontsize=12, va="top")
    axes.set_xlim(-0.55, len(widths) - 0.45)
    axes.set_ylim(bottom, top)
    axes.set_xticks(range(len(widths)), [str(d_k) for d_k in widths], fontsize=14, color=INK)
    ticks = range(-9, 1)
    axes.set_yticks(ticks, ["1" if t == 0 else f"$10^{{{t}}}$" for t in ticks], fontsize=12, color=INK)
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    bare(axes)
    axes.set_xlabel("width of a head, d_k", color=QUIET, fontsize=13)
    axes.set_ylabel("norm of a row of dL/dS", color=QUIET, fontsize=13)
    axes.set_title("Gradient that reaches a row of scores", loc="left", color=INK, fontsize=16, weight="bold", pad=34)
    axes.text(0, 1.025, "scaled by 1/sqrt(d_k)", color=SCALED, fontsize=13, weight="bold", transform=axes.transAxes)
    axes.text(0.47, 1.025, "unscaled", color=UNSCALED, fontsize=13, weight="bold", transform=axes.transAxes)
    axes.text(1, 1.025, "dots: medians", color=QUIET, fontsize=12, ha="right", transform=axes.transAxes)
    return figure


def _half(axes: Any, x: int, logs: np.ndarray, bottom: float, top: float, side: int, colour: str) -> None:
    """Half a violin: a histogram of log10 norms, smoothed a little, with its median as a dot."""
    counts, edges = np.histogram(logs, bins=120, range=(bottom, top))
    kernel = np.exp(-0.5 * (np.arange(-4, 5) / 1.5) ** 2)
    density = np.convolve(np.pad(counts, 4, "edge"), kernel / kernel.sum(), mode="valid")
    height = 0.42 * density / max(density.max(), 1e-9)
    centres = (edges[1:] + edges[:-1]) / 2
    axes.fill_betweenx(centres, x + side * 0.02, x + side * (0.02 + height), color=colour, alpha=0.75, lw=0, zorder=2)
    axes.plot(x + side * 0.02, np.median(logs), "o", ms=8, color=colour, mec="white", mew=1.5, zorder=3)
