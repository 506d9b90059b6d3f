"""Pictures of a training run with matplotlib (the extra `viz`): the loss curve, and every head's attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .pictures import DPI, GRID, INK, QUIET, SCALED, UNSCALED, bare, draw_matrix


def loss_picture(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """rows: the lines of metrics.jsonl.  The loss of each step, and of the held-out rows where measured."""
    figure = Figure(figsize=(6, 4.6), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    axes.plot([row["step"] for row in rows], [row["loss"] for row in rows], color=SCALED, lw=1, label="training batch")
    seen = [row for row in rows if "held_out_loss" in row]
    steps, losses = [row["step"] for row in seen], [row["held_out_loss"] for row in seen]
    axes.plot(steps, losses, "o-", color=UNSCALED, lw=2, label="held out")
    axes.set_xlabel("step", color=QUIET, fontsize=13)
    axes.set_title("Loss, nats a token", loc="left", color=INK, fontsize=16, weight="bold")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.legend(frameon=False, fontsize=12)
    bare(axes)
    return figure


def heads_picture(weights: np.ndarray, words: Sequence[str]) -> Figure:
    """weights (layers, heads, n, n) on n words: one map per head, a layer per row."""
    layers, heads, n, _ = weights.shape
    size = max(2.4, 0.2 * n)
    turned = n > 10 or max(map(len, words)) > 3
    longest = 0.06 * max(map(len, words)) if turned else 0.1  # of the words below a map, inches
    figure = Figure(figsize=(size * heads + 0.4, (size + 0.4 + longest) * layers), dpi=DPI, layout="compressed")
    hidden = np.triu(np.ones((n, n), bool), 1)
    for (layer, head), axes in np.ndenumerate(figure.subplots(layers, heads, squeeze=False)):
        shown = np.where(hidden, np.nan, weights[layer, head])
        draw_matrix(axes, shown, words if head == 0 else [""] * n, words, size=7)
        axes.tick_params(axis="x", rotation=90 if turned else 0)
        axes.set_title(f"layer {layer}, head {head}", loc="left", color=INK, fontsize=10, weight="bold")
    figure.supxlabel("row: who looks; column: at whom", fontsize=8, color=QUIET)
    return figure
