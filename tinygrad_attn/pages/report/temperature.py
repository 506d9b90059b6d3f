"""Section: one row of the model's own scores under a temperature; entropy, weights, and the softmax Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autodiff.functions import softmax
from ...lab.saturation import softmax_jacobian
from ...lab.words import Speaker
from ...probe.meters import rows as meters_of
from ...show.pictures import SCALED, UNSCALED
from .subject import Subject
from .svg import MOVABLE, inline, plain_axes, slider

TEMPERATURES = tuple(float(f"{10 ** (i / 8):.3g}") for i in range(-12, 13))  # 0.0316 to 31.6


def temperature_data(subject: Subject) -> dict[str, Any]:
    """The row of scores that the page cools and heats: that of the last word, in the head that is least sure."""
    layer = subject.last.layers[0]
    scores = layer.value.get("masked", layer.value["scaled"])[:, -1].astype(np.float64)  # (heads, n)
    head = int(np.nan_to_num(meters_of(softmax(scores).numpy()).entropy).argmax())  # NaN: one key, nothing to choose
    row = scores[head]
    shown: list[dict[str, Any]] = []
    for T in TEMPERATURES:
        weights = softmax(row / T).numpy()
        meters = meters_of(weights)
        shown.append(
            {
                "T": T,
                "weights": weights,
                "entropy": float(meters.entropy),
                "norm": float(meters.jacobian),
                "slope": float(meters.jacobian) / T,
                "jacobian": softmax_jacobian(row / T),
            }
        )
    return {"head": head, "scores": row, "at": shown}


def temperature_section(subject: Subject, data: dict[str, Any], say: Speaker) -> str:
    figure, axes = plain_axes(5.4, 3.2)
    ts = [one["T"] for one in data["at"]]
    axes.plot(
        ts, [one["entropy"] for one in data["at"]], color=SCALED, lw=2, label=say("entropy / log n", "entropía / log n")
    )
    axes.plot(ts, [one["norm"] for one in data["at"]], color=UNSCALED, lw=2, label=say("Jacobian", "jacobiano"))
    slopes = [one["slope"] for one in data["at"]]
    axes.plot(ts, slopes, "--", color=UNSCALED, lw=1.5, label=say("Jacobian / T", "jacobiano / T"))
    axes.set_xscale("log")
    axes.set_ylim(0, max(1.05, 1.05 * max(slopes)))
    axes.set_xlabel("T", fontsize=10)
    axes.legend(frameon=False, fontsize=10)
    marker = axes.axvline(1.0, color="#1b2733", lw=1.5)
    marker.set_gid(MOVABLE)
    figure.set_dpi(72)  # SVG counts in points: where each temperature stands, relative to T = 1
    figure.draw_without_rendering()
    places = [float(axes.transData.transform((T, 0))[0]) for T in ts]
    data["places"] = [x - places[ts.index(1.0)] for x in places]
    label = say("Entropy and Jacobian against temperature", "Entropía y jacobiano según la temperatura")
    caption = say("Jacobian: d(row's weight)/d(column's score)", "Jacobiano: d(peso de fila)/d(puntuación de columna)")
    return (
        f"<h2>{say('Temperature', 'Temperatura')}</h2><p>"
        + say(
            f"softmax(scores / T) for the last word's scores in layer 0, head {data['head']}. Cold: one key, entropy 0. Hot: "
            "all keys alike, entropy log n. What reaches the scores goes with the Jacobian / T: it vanishes at both ends.",
            f"softmax(puntuaciones / T) con las puntuaciones de la última palabra en la capa 0, cabeza {data['head']}. Frío: "
            "una clave, entropía 0. Caliente: todas iguales, entropía log n. Lo que llega a las puntuaciones sigue al "
            "jacobiano / T: se desvanece en ambos extremos.",
        )
        + f"</p>{slider('temperature', 'temperature', 'T', [f'{T:g}' for T in ts], ts.index(1.0))}"
        + '<p id="temperature-numbers" class=numbers aria-live=polite></p><div class=grid>'
        + f"<figure><figcaption>{say('Weights', 'Pesos')}</figcaption><div id=temperature-weights class=matrix-box></div>"
        + f"{inline(figure, label)}</figure><figure><figcaption>{caption} <small id=temperature-unit></small></figcaption>"
        + "<div id=temperature-jacobian class=matrix-box></div></figure></div>"
    )
