"""Sections: the weights of every head over the training, and the four steps with their shapes and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...show.matrix import MANY
from ..kit import Speaker, select, slider
from ..look import Answer, Layer
from .subject import Subject

FORMULAS = {"scores": "q kᵀ", "scaled": "scores / √d_k", "masked": "", "weights": "softmax", "mix": "weights v"}
NUMBERS = 60_000  # of the step section, in the file at most


def matrix_section(subject: Subject, say: Speaker) -> str:
    steps = [snapshot.step for snapshot in subject.snapshots]
    shade = f"<p class=note>{say('matrix.shade')}</p>" if len(subject.words) > MANY else ""
    return (
        f"<p>{say('matrix.intro')}</p>{slider('snapshot', 'snapshot', say('step'), steps)}{shade}"
        "<p id=snapshot-numbers class=numbers aria-live=polite></p><div id=heads class=grid></div>"
    )


def steps_section(subject: Subject, say: Speaker) -> str:
    layer, steps = subject.last.layers[0], [subject.last.step, subject.snapshots[0].step]
    n, d_k, d_v = (*layer.value["q"].shape[1:], layer.value["v"].shape[-1])
    return (
        f"<p>{say('steps.intro', n=n, d_k=d_k, d_v=d_v)}</p><p class=control>"
        + select("steps-layer", say("layer"), range(len(subject.last.layers)))
        + select("steps-head", say("head"), range(layer.heads))
        + select("steps-snapshot", say("step"), steps)
        + select("steps-what", say("steps.show"), [say("steps.values"), say("steps.gradients")])
        + "</p><div id=steps class=grid></div>"
    )


def page_data(subject: Subject, say: Speaker) -> dict[str, Any]:
    """What the page's script draws from: numbers with four digits, None where a mask hides."""
    steps = [[_steps(layer, say) for layer in s.layers] for s in (subject.last, subject.snapshots[0])]
    if _count(subject.last) > NUMBERS:  # a large model: its first layer, and only as it is now
        steps = [[_steps(subject.last.layers[0], say)]]
    snapshots = [
        {"loss": rounded(s.loss), "answers": rounded(s.answers), "layers": [_weights(layer) for layer in s.layers]}
        for s in subject.snapshots
    ]
    return {"words": subject.words, "snapshots": snapshots, "steps": steps}


def _weights(layer: Layer) -> Any:
    """(heads, n, n); None where the mask hides the key."""
    weights = layer.value["weights"]
    masked = layer.value.get("masked")
    return rounded(weights if masked is None else np.where(np.isneginf(masked), -np.inf, weights), 3)


def _steps(layer: Layer, say: Speaker) -> dict[str, Any]:
    return {
        name: {
            "formula": formula or say("steps.masked"),
            "value": _weights(layer) if name == "weights" else rounded(layer.value[name]),
            "gradient": rounded(layer.gradient.get(name)),
        }
        for name, formula in FORMULAS.items()
        if name in layer.value
    }


def _count(snapshot: Answer) -> int:
    return sum(4 * array.size for layer in snapshot.layers for name, array in layer.value.items() if name in FORMULAS)


def rounded(values: Any, digits: int = 4) -> Any:
    """`values` for JSON: each number with `digits` significant digits, infinite ones as None; texts as they are.

    >>> rounded(np.array([1.23456, -np.inf, 1e-9]))
    [1.235, None, 1e-09]
    """
    if values is None or isinstance(values, str):
        return values
    if isinstance(values, dict):
        return {key: rounded(value, digits) for key, value in values.items()}
    if isinstance(values, (np.ndarray, list, tuple)):
        return [rounded(value, digits) for value in values]
    return float(f"{values:.{digits}g}") if np.isfinite(values) else None
