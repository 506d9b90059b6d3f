"""The picture of a lab table: lines over one axis, in matplotlib, without pyplot and without global state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from ..show.pictures import GRID, INK, QUIET

if TYPE_CHECKING:
    from .result import LabTable, Picture

COLOURS = ("#1f6fb2", "#d1495b", "#2a9d8f", "#e09f3e", "#6d597a", "#5b6875")


def draw(table: LabTable, picture: Picture) -> Figure:
    """A line for each group, in the order in which the groups first appear; side by side where there are panels."""
    split: list[Any] = (
        [None] if picture.panel is None else list(dict.fromkeys(row[picture.panel] for row in table.rows))
    )
    columns = min(len(split), 2)
    lines = -(-len(split) // columns)
    figure = Figure(figsize=(5.4, 3.8 if lines == 1 else 2.7 * lines + 0.8), dpi=160, layout="constrained")
    every = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    groups = list(dict.fromkeys(tuple(row[key] for key in picture.by) for row in table.rows))
    for axes, value in zip(every.ravel(), split):
        rows = [row for row in table.rows if value is None or row[picture.panel or ""] == value]
        _lines(axes, table, picture, rows, groups)
        if value is not None:
            axes.set_title(f"{_titles(table)[picture.panel or '']} = {value}", loc="left", color=INK, fontsize=10)
    for axes in every.ravel()[len(split) :]:
        axes.remove()
    units = dict(table.units) | ({} if picture.unit is None else {picture.y: picture.unit})
    units = {key: f" ({unit})" for key, unit in units.items()}
    titles = _titles(table)
    for axes in every[-1]:
        axes.set_xlabel(titles[picture.x] + units.get(picture.x, ""), color=QUIET)
    for axes in every[:, 0]:
        axes.set_ylabel(titles[picture.y] + units.get(picture.y, ""), color=QUIET)
    figure.suptitle(table.title, x=0.01, ha="left", color=INK, weight="bold", fontsize=11)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _lines(
    axes: Any, table: LabTable, picture: Picture, rows: list[dict[str, Any]], groups: list[tuple[Any, ...]]
) -> None:
    forms = {column.key: column.form for column in table.columns}
    for i, group in enumerate(groups):
        mine = [row for row in rows if tuple(row[key] for key in picture.by) == group]
        if not mine:
            continue
        x, y = (np.array([float(row[key]) for row in mine]) for key in (picture.x, picture.y))
        label = ", ".join(f"{_titles(table)[key]}: {forms[key](value)}" for key, value in zip(picture.by, group)) or "_"
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(x, np.maximum(y, 1e-300) if picture.log_y else y, "o-", ms=4, lw=1.8, color=colour, label=label)
        if picture.spread is not None:
            half = np.array([float(row[picture.spread]) for row in mine])
            least = 1e-300 if picture.log_y else -np.inf
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
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _titles(table: LabTable) -> dict[str, str]:
    return {column.key: " ".join(column.title.split()) for column in table.columns}
