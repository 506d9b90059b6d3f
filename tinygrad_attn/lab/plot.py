"""The picture of a lab table: lines over one axis, in matplotlib, without pyplot and without global state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from ..show.pictures import GRID, INK, QUIET

if TYPE_CHECKING:
    from .result import LabTable, Picture

COLOURS = ("#1f6fb2", "#d1495b", "#2a9d8f", "#e09f3e", "#6d597a", "#5b6875", "#8ab17d", "#b56576")


def draw(table: LabTable, picture: Picture) -> Figure:
    """A line for each group, in the order in which the groups first appear."""
    figure = Figure(figsize=(6.4, 4.4), dpi=160, layout="constrained")
    axes = figure.subplots()
    titles = {column.key: " ".join(column.title.split()) for column in table.columns}
    forms = {column.key: column.form for column in table.columns}
    groups = list(dict.fromkeys(tuple(row[key] for key in picture.by) for row in table.rows))
    for i, group in enumerate(groups):
        rows = [row for row in table.rows if tuple(row[key] for key in picture.by) == group]
        x, y = ([float(row[key]) for row in rows] for key in (picture.x, picture.y))
        label = ", ".join(f"{titles[key]} {forms[key](value)}" for key, value in zip(picture.by, group)) or None
        bars = None if picture.spread is None else [float(row[picture.spread]) for row in rows]
        shown = np.maximum(y, 1e-300) if picture.log_y else y
        axes.errorbar(x, shown, bars, marker="o", ms=4, lw=1.8, capsize=3, color=COLOURS[i % len(COLOURS)], label=label)
    if picture.log_x:
        axes.set_xscale("log", base=2)
    if picture.log_y:
        axes.set_yscale("log")
    units = {key: f" ({unit})" for key, unit in table.units.items()}
    axes.set_xlabel(titles[picture.x] + units.get(picture.x, ""), color=QUIET)
    axes.set_ylabel(titles[picture.y] + units.get(picture.y, ""), color=QUIET)
    axes.set_title(table.title, loc="left", color=INK, weight="bold", fontsize=12, wrap=True)
    axes.grid(color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(groups) > 1:
        axes.legend(frameon=False, fontsize=8.5)
    return figure
