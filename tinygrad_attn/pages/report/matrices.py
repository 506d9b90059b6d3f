"""Sections: the attention matrix of every head over the training, and the four steps with their shapes and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...lab.words import Speaker
from ..look import Layer
from .subject import Snapshot, Subject
from .svg import slider

FORMULAS = {
    "scores": "q kᵀ",
    "scaled": "scores / √d_k",
    "masked": "",  # in words, by language
    "weights": "softmax",
    "mix": "weights v",
}
NUMBERS = 60_000  # of the step section, in the file at most


def matrix_section(subject: Subject, say: Speaker) -> str:
    wide = len(subject.words) > 10  # as in page.js
    values = [f"{m.step}" for m in subject.snapshots]
    return (
        f"<h2>{say('Who looks at whom', 'Quién mira a quién')}</h2><p>"
        + say(
            "A row is the query: the word that looks. A column is the key: the word that is looked at. Each row of weights "
            "sums to 1; a word cannot look at words to come (hatched). The matrix is not symmetric: W_Q is not W_K.",
            "Una fila es la consulta: la palabra que mira. Una columna es la clave: la palabra mirada. Cada fila de pesos "
            "suma 1; una palabra no puede mirar a las que vienen después (rayadas). La matriz no es simétrica: W_Q no es W_K.",
        )
        + f"</p>{slider('moment', 'moment', say('training step', 'paso del entrenamiento'), values, len(values) - 1)}"
        + (
            f"<p class=note>{say('Shade: the square root of the weight.', 'Sombra: la raíz cuadrada del peso.')}</p>"
            if wide
            else ""
        )
        + "<p id=moment-numbers class=numbers aria-live=polite></p><div id=heads class=grid></div>"
    )


def steps_section(subject: Subject, say: Speaker) -> str:
    layers, heads = len(subject.last.layers), subject.last.layers[0].heads
    layer = subject.last.layers[0]
    n, d_k, d_v = (*layer.value["q"].shape[1:], layer.value["v"].shape[-1])
    moments = [subject.last, subject.snapshots[0]]
    return (
        f"<h2>{say('The four steps', 'Los cuatro pasos')}</h2><p>"
        + say(
            f"Of one head: q ({n} × {d_k}), k ({n} × {d_k}), v ({n} × {d_v}). Scores, scale, softmax per row (the mask before "
            "it), mix. Each has its value and the gradient of the loss with respect to it. Blue is positive, red negative.",
            f"De una cabeza: q ({n} × {d_k}), k ({n} × {d_k}), v ({n} × {d_v}). Puntuaciones, escala, softmax por filas "
            "(antes, la máscara), mezcla. Cada uno tiene su valor y el gradiente de la pérdida respecto a él. Azul es "
            "positivo, rojo negativo.",
        )
        + "</p><p class=control>"
        + _select("steps-layer", say("layer", "capa"), [str(i) for i in range(layers)])
        + _select("steps-head", say("head", "cabeza"), [str(i) for i in range(heads)])
        + _select("steps-moment", say("training step", "paso del entrenamiento"), [str(m.step) for m in moments])
        + _select("steps-what", say("show", "mostrar"), [say("values", "valores"), say("gradients", "gradientes")])
        + "</p><div id=steps class=grid></div>"
    )


def _select(name: str, label: str, options: list[str]) -> str:
    inside = "".join(f"<option value={i}>{text}</option>" for i, text in enumerate(options))
    return f'<label>{label} <select id="{name}">{inside}</select></label> '


def page_data(subject: Subject, say: Speaker) -> dict[str, Any]:
    """What the page's script draws from: numbers with four digits, None where a mask hides."""
    steps = [[_steps(layer, say) for layer in m.layers] for m in (subject.last, subject.snapshots[0])]
    if _count(subject.last) > NUMBERS:  # a large model: its first layer, and only as it is now
        steps = [[_steps(subject.last.layers[0], say)]]
    return {
        "words": subject.words,
        "moments": [
            {
                "step": m.step,
                "loss": short(m.loss),
                "answers": [[word, short(p)] for word, p in m.answers],
                "layers": [_visible(layer) for layer in m.layers],
            }
            for m in subject.snapshots
        ],
        "steps": steps,
    }


def _visible(layer: Layer) -> Any:
    """Weights, (heads, n, n); None where the mask hides the key."""
    weights = layer.value["weights"]
    masked = layer.value.get("masked")
    return short(weights if masked is None else np.where(np.isneginf(masked), -np.inf, weights), 3)


def _steps(layer: Layer, say: Speaker) -> dict[str, Any]:
    found = {}
    for name, formula in FORMULAS.items():
        if name in layer.value:
            gradient = layer.gradient.get(name)
            value = _visible(layer) if name == "weights" else short(layer.value[name])
            found[name] = {"formula": formula or say("scaled; hidden: −∞", "scaled; ocultas: −∞"), "value": value}
            found[name]["gradient"] = None if gradient is None else short(gradient)
    return found


def _count(snapshot: Snapshot) -> int:
    return sum(4 * array.size for layer in snapshot.layers for name, array in layer.value.items() if name in FORMULAS)


def short(values: Any, digits: int = 4) -> Any:
    """Numbers as lists for JSON, each with `digits` significant digits; infinite ones as None.

    >>> short(np.array([1.23456, -np.inf, 1e-9]))
    [1.235, None, 1e-09]
    """
    if isinstance(values, (np.ndarray, list, tuple)):
        return [short(value, digits) for value in values]
    return float(f"{values:.{digits}g}") if np.isfinite(values) else None
