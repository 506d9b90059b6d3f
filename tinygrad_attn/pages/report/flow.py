"""Section: how much gradient is left of dL/dmix on its way to W_Q, head by head."""

from __future__ import annotations

import html

import numpy as np

from ...lab.words import Speaker
from ...show.table import number
from ..look import CHAIN, Layer
from .subject import Subject
from .svg import LINES, frames, inline, plain_axes, slider


def flow_section(subject: Subject, say: Speaker) -> str:
    """One picture and one table for each snapshot of the training; the page's `moment` slider moves them."""
    everything = [
        n for m in subject.snapshots for layer in m.layers for ns in layer.norms().values() for n in ns if n > 0
    ]
    limits = (min(everything) / 2, max(everything) * 2) if everything else (1e-6, 1.0)
    pictures = []
    for snapshot in subject.snapshots:
        inside = "".join(_layer(i, layer, limits, snapshot.step, say) for i, layer in enumerate(snapshot.layers))
        pictures.append(inside)
    steps = [str(snapshot.step) for snapshot in subject.snapshots]
    return (
        f"<h2>{say('From the loss to W_Q, head by head', 'De la pérdida a W_Q, cabeza por cabeza')}</h2><p>"
        + say(
            "Norm of the gradient at each step, in the order in which backward meets them. Between weights and scaled stands "
            "the softmax: what falls there is lost to saturation. Between scaled and scores stands the factor 1/sqrt(d_k). A "
            "model that is sure of its answer has little gradient left: move the slider to step 0 to see it learn.",
            "Norma del gradiente en cada paso, en el orden en que los recorre backward. Entre weights y scaled está el "
            "softmax: lo que cae ahí se pierde por saturación. Entre scaled y scores está el factor 1/sqrt(d_k). A un modelo "
            "seguro de su respuesta le queda poco gradiente: mueve el control al paso 0 para verlo aprender.",
        )
        + f"</p>{slider('flow-moment', 'moment', say('training step', 'paso del entrenamiento'), steps, len(steps) - 1)}"
        + frames(pictures, "moment")
    )


def _layer(place: int, layer: Layer, limits: tuple[float, float], step: int, say: Speaker) -> str:
    norms = layer.norms()
    names = [name for name in CHAIN if name in norms]
    figure, axes = plain_axes(5.2, 3.2)
    for head in range(layer.heads):
        ys = [norms[name][head] or np.nan for name in names]
        colour, dash = LINES[head % len(LINES)], "-" if head < len(LINES) else "--"
        axes.plot(range(len(names)), ys, dash, marker="o", ms=4, color=colour, lw=1.8)
    axes.set_yscale("log")
    axes.set_ylim(*limits)
    axes.set_xticks(range(len(names)), [f"dL/d\n{name}" for name in names])
    names_of_heads = [f"{say('head', 'cabeza')} {head}" for head in range(layer.heads)]
    figure.legend(axes.get_lines(), names_of_heads, frameon=False, fontsize=9, ncols=4, loc="outside upper center")
    label = say(f"Gradient norms, layer {place}, step {step}", f"Normas del gradiente, capa {place}, paso {step}")
    titles = "".join(f"<th>{say('head', 'cabeza')} {head}</th>" for head in range(layer.heads))
    rows = ""
    for name in names:
        cells = "".join(f"<td>{number(float(norm), 2)}</td>" for norm in norms[name])
        rows += f"<tr><th>dL/d{html.escape(name)}</th>{cells}</tr>"
    table = f"<table class=small><thead><tr><th></th>{titles}</tr></thead><tbody>{rows}</tbody></table>"
    return (
        f"<figure><figcaption>{say('Layer', 'Capa')} {place}</figcaption><div class=grid>{inline(figure, label)}"
        f"<div class=scroll tabindex=0>{table}</div></div></figure>"
    )
