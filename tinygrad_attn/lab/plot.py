"""The picture of a table: lines over one axis, in matplotlib, without pyplot and without global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..show.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#1f6fb2", "#d1495b", "#2a9d8f", "#e09f3e", "#6d597a", "#5b6875")


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


def draw(table: Table, picture: Picture, units: Mapping[str, str]) -> Figure:
    """A line for each group, in the order in which the groups first appear; side by side where there are panels.

    Errors: ImportError without matplotlib."""
    from matplotlib.figure import Figure

    from ..show.pictures import INK, QUIET

    panel = picture.panel or ""  # no row has such a key: one panel for all
    values = list(dict.fromkeys(row.get(panel) for row in table.rows)) or [None]
    columns = min(len(values), 2)
    lines = -(-len(values) // columns)
    figure = Figure(figsize=(5.4, 3.8 if lines == 1 else 2.7 * lines + 0.8), dpi=160, layout="constrained")
    every = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    titles = {column.key: " ".join(column.title.split()) for column in table.columns}
    groups = list(dict.fromkeys(tuple(row[key] for key in picture.by) for row in table.rows))
    for axes, value in zip(every.ravel(), values):
        rows = [row for row in table.rows if row.get(panel) == value]
        _lines(axes, table, picture, rows, groups, titles)
        if panel:
            axes.set_title(f"{titles[panel]} = {value}", loc="left", color=INK, fontsize=10)
    for axes in every.ravel()[len(values) :]:
        axes.remove()
    x_unit, y_unit = units.get(picture.x), picture.unit or units.get(picture.y)
    for axes in every[-1]:
        axes.set_xlabel(titles[picture.x] + (f" ({x_unit})" if x_unit else ""), color=QUIET)
    for axes in every[:, 0]:
        axes.set_ylabel(titles[picture.y] + (f" ({y_unit})" if y_unit else ""), color=QUIET)
    figure.suptitle(table.title, x=0.01, ha="left", color=INK, weight="bold", fontsize=11)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels()) if label not in handles}
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _lines(
    axes: Any, table: Table, picture: Picture, rows: list[dict[str, Any]], groups: list[Any], titles: dict[str, str]
) -> None:
    from ..show.pictures import GRID

    forms = {column.key: column.form for column in table.columns}
    least = 1e-300 if picture.log_y else -np.inf
    for group, colour in zip(groups, COLOURS * len(groups)):
        mine = [row for row in rows if tuple(row[key] for key in picture.by) == group]
        if not mine:
            continue
        x, y = (np.array([float(row[key]) for row in mine]) for key in (picture.x, picture.y))
        label = ", ".join(f"{titles[key]}: {forms[key](value)}" for key, value in zip(picture.by, group)) or "_"
        axes.plot(x, np.maximum(y, least), "o-", ms=4, lw=1.8, color=colour, label=label)
        if picture.spread is not None:
            half = np.array([float(row[picture.spread]) for row in mine])
            axes.fill_between(x, np.maximum(y - half, least), y + half, color=colour, alpha=0.15, lw=0)
    if picture.log_x:
        axes.set_xscale("log", base=2)
    if picture.log_y:
        axes.set_yscale("log")
    if picture.y == "accuracy":  # the band of a spread may pass 100 %
        axes.set_ylim(0.0, 1.03)
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
