"""Section: one row of the model's own scores under a temperature; entropy, weights, and the softmax Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autodiff.functions import softmax
from ...lab.jacobian import softmax_jacobian
from ...probe.meters import rows as meters_of
from ...show.pictures import INK, SCALED, UNSCALED
from ..kit import Speaker, figure, slider
from .subject import Subject
from .svg import MOVABLE, inline, plain_axes

TEMPERATURES = tuple(float(f"{10 ** (i / 8):.3g}") for i in range(-12, 13))  # 0.0316 to 31.6


def temperature_data(subject: Subject) -> dict[str, Any]:
    """The row of scores that the page cools and heats: that of the last word, in the head that is least sure."""
    layer = subject.last.layers[0]
    scores = layer.value.get("masked", layer.value["scaled"])[:, -1].astype(np.float64)  # (heads, n)
    head = int(np.nan_to_num(meters_of(softmax(scores).numpy()).entropy).argmax())  # NaN: one key, nothing to choose
    row = scores[head]
    return {"head": head, "scores": row, "at": [_at(row, T) for T in TEMPERATURES]}


def _at(row: np.ndarray, T: float) -> dict[str, Any]:
    weights = softmax(row / T).numpy()
    meters = meters_of(weights)
    entropy, norm = float(meters.entropy), float(meters.jacobian)
    sizes = {"T": T, "entropy": entropy, "norm": norm, "slope": norm / T}
    return sizes | {"weights": weights, "jacobian": softmax_jacobian(row / T)}


def temperature_section(data: dict[str, Any], say: Speaker) -> tuple[str, list[float]]:
    """The section, and by how much its picture's marker moves from T = 1 to each temperature."""
    curves = {key: [one[key] for one in data["at"]] for key in ("entropy", "norm", "slope")}
    top = max(1.05, 1.05 * max(curves["slope"]))
    drawing, axes = plain_axes(5.4, 3.2, xscale="log", ylim=(0, top), xlabel="T")
    axes.plot(TEMPERATURES, curves["entropy"], color=SCALED, lw=2, label=say("heat.entropy"))
    axes.plot(TEMPERATURES, curves["norm"], color=UNSCALED, lw=2, label=say("heat.norm"))
    axes.plot(TEMPERATURES, curves["slope"], "--", color=UNSCALED, lw=1.5, label=say("heat.slope"))
    axes.legend(frameon=False, fontsize=10)
    axes.axvline(1.0, color=INK, lw=1.5).set_gid(MOVABLE)
    drawing.set_dpi(72)  # SVG counts in points
    drawing.draw_without_rendering()
    places = [float(axes.transData.transform((T, 0))[0]) for T in TEMPERATURES]
    start = TEMPERATURES.index(1.0)
    weights = f"<div id=temperature-weights class=matrix-box></div>{inline(drawing, say('heat.picture'))}"
    jacobian = "<div id=temperature-jacobian class=matrix-box></div>"
    text = (
        f"<p>{say('heat.intro', head=data['head'])}</p>"
        + slider("temperature", "temperature", "T", [f"{T:g}" for T in TEMPERATURES], start)
        + "<p id=temperature-numbers class=numbers aria-live=polite></p><div class=grid>"
        + figure(say("heat.weights"), weights)
        + figure(f"{say('heat.jacobian')} <small id=temperature-unit></small>", jacobian)
        + "</div>"
    )
    return text, [x - places[start] for x in places]
