"""Plots for a page: matplotlib figures as inline SVG whose colours follow the page, light or dark.

Why matplotlib: it is what the package's pictures are made with already, a frame is 10 to 30 kB, and it prints sharp.
A slider needs no library in the page then: it shows one of a few frames made beforehand."""

from __future__ import annotations

import html
import io
import re
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...show.pictures import GRID, HIDDEN, INK, QUIET, SCALED, UNSCALED

MOVABLE = "temperature-marker"  # the one part of a figure that the page moves
_VARIABLES = {
    INK: "var(--ink)", QUIET: "var(--dim)", GRID: "var(--line)", HIDDEN: "var(--shade)", SCALED: "var(--mark)",
    UNSCALED: "var(--warm)", "#ffffff": "var(--paper)", "#000000": "var(--ink)",
}  # fmt: skip
LINES = (SCALED, UNSCALED, "#2e8b57", "#8a5fbf", "#b8860b", "#3a9ea5", "#c76da2", "#7a8a3a")  # heads
_VARIABLES.update({colour: f"var(--line{i})" for i, colour in enumerate(LINES) if i > 1})


def plain_axes(width: float, height: float, title: str = "", **settings: Any) -> tuple[Figure, Axes]:
    """A figure with one quiet pair of axes; sizes in inches, type readable at the width of a phone.

    settings: of the axes, such as yscale="log"."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.patch.set_alpha(0)
    axes.grid(color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.set(**settings)
    axes.set_title(title, loc="left", fontsize=10)
    axes.tick_params(length=0, labelsize=10, labelcolor=INK)
    return figure, axes


def inline(figure: Figure, label: str) -> str:
    """The figure as an <svg> element; `label` says in words what it shows."""
    text = io.StringIO()
    figure.patch.set_alpha(0)
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": label, "font.family": "sans-serif"}):
        figure.savefig(text, format="svg", metadata=no_metadata)
    drawing = text.getvalue()
    drawing = re.sub(r"<!--.*?-->", "", drawing[drawing.index("<svg") :], flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        drawing = drawing.replace(colour, variable)
    drawing = re.sub(r"font: (\S+px) [^;\"]*", r"font: \1 system-ui, sans-serif", drawing)
    head = r'<svg viewBox="\1" role="img" aria-label="@label@">'
    drawing = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', head, drawing)
    drawing = re.sub(rf'<g id="(?!{MOVABLE})[^"]*"', "<g", drawing)  # the same names in every figure of a page
    drawing = re.sub(r"\s*\n\s*", "\n", drawing)
    return drawing.replace("@label@", html.escape(label, quote=True))
