"""Section: how much gradient is left of dL/dmix on its way to W_Q, head by head."""

from __future__ import annotations

import numpy as np

from ...show.numbers import number
from ..kit import Speaker, figure, frames, number_table, slider
from ..look import Layer
from .subject import Subject
from .svg import LINES, inline, plain_axes


def flow_section(subject: Subject, say: Speaker) -> str:
    """One picture and one table for each snapshot of the training; the page's `snapshot` slider moves them."""
    layers = [layer for snapshot in subject.snapshots for layer in snapshot.layers]
    every_norm = [norm for layer in layers for norms in layer.norms().values() for norm in norms if norm > 0]
    limits = (min(every_norm) / 2, max(every_norm) * 2) if every_norm else (1e-6, 1.0)
    pictures = [
        "".join(_layer(i, layer, limits, snapshot.step, say) for i, layer in enumerate(snapshot.layers))
        for snapshot in subject.snapshots
    ]
    chosen = slider("flow-snapshot", "snapshot", say("step"), [snapshot.step for snapshot in subject.snapshots])
    return f"<p>{say('flow.intro')}</p>{chosen}{frames(pictures, 'snapshot')}"


def _layer(place: int, layer: Layer, limits: tuple[float, float], step: int, say: Speaker) -> str:
    norms, heads = layer.norms(), [f"{say('head')} {head}" for head in range(layer.heads)]
    drawing, axes = plain_axes(5.2, 3.2, yscale="log", ylim=limits)
    for head in range(layer.heads):
        ys = [norm[head] or np.nan for norm in norms.values()]
        colour, dash = LINES[head % len(LINES)], "-" if head < len(LINES) else "--"
        axes.plot(range(len(ys)), ys, dash, marker="o", ms=4, color=colour, lw=1.8)
    axes.set_xticks(range(len(norms)), [f"dL/d\n{name}" for name in norms])
    drawing.legend(axes.get_lines(), heads, frameon=False, fontsize=9, ncols=4, loc="outside upper center")
    picture = inline(drawing, say("flow.picture", layer=place, step=step))
    rows = {f"dL/d{name}": [number(float(x), 2) for x in norm] for name, norm in norms.items()}
    return figure(f"{say('Layer')} {place}", f"<div class=grid>{picture}{number_table(rows, ['', *heads])}</div>")
