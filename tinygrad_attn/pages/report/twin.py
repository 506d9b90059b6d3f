"""Section: the same attention twice, with and without 1/sqrt(d_k), over a grid of d_k made beforehand."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from ...autodiff.blas import one_thread_blas
from ...autodiff.tensor import Tensor
from ...lab.words import Speaker
from ...nn import MultiHeadAttention
from ...probe import compare
from ...probe.compare import CHAIN
from ...show.pictures import SCALED, UNSCALED
from ...show.table import number, percent
from .svg import frames, inline, plain_axes, slider

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
SEQUENCES, KEYS, D_MODEL, D_V = 40, 16, 64, 16
DEAD = 1e-3


@dataclass(frozen=True)
class Twins:
    """Of one d_k, (scaled, unscaled) each: what softmax receives, its meters, the row norms along the chain."""

    d_k: int
    inputs: tuple[np.ndarray, np.ndarray]
    meters: tuple[dict[str, float], dict[str, float]]
    norms: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]

    def dead(self, which: int) -> float:
        """The share of rows of dL/dscaled below 1e-3."""
        return float((self.norms[which]["scaled"] < DEAD).mean())


def twins(d_k: int, seed: int = 0, sequences: int = SEQUENCES) -> Twins:
    """One head of width d_k on x ~ N(0, 1), W ~ N(0, 1/d_model), in float64; the loss sends N(0, 1)/sqrt(d_model).

    >>> found = twins(64, sequences=4)
    >>> bool(np.median(found.norms[1]["scaled"]) < np.median(found.norms[0]["scaled"]))
    True
    """

    def make(scale: float | None) -> MultiHeadAttention:
        sizes = {"d_k": d_k, "d_v": D_V, "sigma": D_MODEL**-0.5}
        attention = MultiHeadAttention(D_MODEL, 1, seed, scale=scale, attention="explicit", **sizes)
        attention.astype("float64")
        return attention

    x = Tensor(np.random.default_rng([seed, 9]).standard_normal((sequences, KEYS, D_MODEL)))
    with one_thread_blas():
        found = compare(make, (x,), seed=seed)
    inputs, meters, norms = [], [], []
    for variant in found.variants:
        inputs.append(variant.seen["scaled"].value.numpy().ravel())
        meters.append(variant.saturation(""))
        every = {step: variant.norms("", step) for step in CHAIN}
        norms.append({step: n for step, n in every.items() if n is not None})
    return Twins(d_k, (inputs[0], inputs[1]), (meters[0], meters[1]), (norms[0], norms[1]))


def twin_section(say: Speaker, widths: tuple[int, ...] = WIDTHS) -> str:
    found = [twins(d_k) for d_k in widths]
    pictures = [
        f"<div class=grid><figure>{_inputs(pair, say)}</figure><figure>{_chain(pair, say)}</figure>{_numbers(pair, say)}</div>"
        for pair in found
    ]
    start = widths.index(64) if 64 in widths else 0
    return (
        f"<h2>{say('What 1/sqrt(d_k) is for', 'Para qué sirve 1/sqrt(d_k)')}</h2><p>"
        + say(
            "The same attention, weights and data twice: scaled by 1/sqrt(d_k), and unscaled. Unscaled, the scores spread "
            "like sqrt(d_k), softmax gives all weight to one key, and its Jacobian passes nothing on: look at dL/dscaled.",
            "La misma atención, con los mismos pesos y datos, dos veces: escalada por 1/sqrt(d_k) y sin escalar. Sin "
            "escalar, las puntuaciones se dispersan como sqrt(d_k), el softmax da todo el peso a una clave y su jacobiano "
            "no deja pasar nada: fíjate en dL/dscaled.",
        )
        + f"</p>{slider('d_k', 'd_k', 'd_k', map(str, widths), start)}{frames(pictures, 'd_k')}"
        + "<p class=note>"
        + say(
            f"{SEQUENCES * KEYS} rows of {KEYS} keys; x ~ N(0, 1), W ~ N(0, 1/{D_MODEL}), one draw, float64. Dead: rows of "
            "dL/dscaled below 1e-3. The norm of dL/dW_Q is one number for the whole matrix, and may be larger where most "
            "rows are dead: the few live ones lack the factor. Vanishing shows in dL/dscaled, not in the gradients of the "
            "parameters.",
            f"{SEQUENCES * KEYS} filas de {KEYS} claves; x ~ N(0, 1), W ~ N(0, 1/{D_MODEL}), un sorteo, float64. Muertas: "
            "filas de dL/dscaled por debajo de 1e-3. La norma de dL/dW_Q es un solo número para toda la matriz, y puede ser "
            "mayor donde casi todas las filas han muerto: a las pocas vivas les falta el factor. El desvanecimiento se ve en "
            "dL/dscaled, no en los gradientes de los parámetros.",
        )
        + "</p>"
    )


def _names(say: Speaker) -> tuple[str, str]:
    return say("scaled", "escalada"), say("unscaled", "sin escalar")


def _inputs(pair: Twins, say: Speaker) -> str:
    figure, axes = plain_axes(4.6, 3.4)
    edges = np.linspace(-40, 40, 81)
    for values, colour, name in zip(pair.inputs, (SCALED, UNSCALED), _names(say)):
        counts, _ = np.histogram(np.clip(values, -39.9, 39.9), edges)
        axes.stairs(counts / counts.sum(), edges, color=colour, lw=2, label=name)
    axes.set_xticks([-40, -20, 0, 20, 40], ["≤ −40", "−20", "0", "20", "≥ 40"])
    axes.set_yticks([])
    axes.set_ylim(0, 0.45)
    axes.set_title(say("What softmax receives", "Lo que recibe el softmax"), loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=10)
    std = [number(meters["score std"], 2) for meters in pair.meters]
    words = say("Histogram of what softmax receives, d_k", "Histograma de lo que recibe el softmax, d_k")
    return inline(figure, f"{words} {pair.d_k}: std {std[0]} / {std[1]}")


def _chain(pair: Twins, say: Speaker) -> str:
    figure, axes = plain_axes(4.6, 3.4)
    steps = [step for step in CHAIN if step in pair.norms[0] and step in pair.norms[1]]
    for norms, colour, name in zip(pair.norms, (SCALED, UNSCALED), _names(say)):
        low, median, high = (np.array([np.quantile(norms[step], q) for step in steps]) for q in (0.05, 0.5, 0.95))
        floor = np.maximum(low, 1e-12)
        axes.fill_between(range(len(steps)), floor, np.maximum(high, 1e-12), color=colour, alpha=0.15, lw=0)
        axes.plot(range(len(steps)), np.maximum(median, 1e-12), "o-", ms=4, color=colour, lw=2, label=name)
    axes.set_yscale("log")
    axes.set_ylim(1e-9, 1e3)
    axes.set_xticks(range(len(steps)), steps, fontsize=9)
    axes.set_title(say("Row norms of dL/d(step), median and 5 to 95 %", "Normas de las filas de dL/d(paso): mediana, 5 a 95 %"),
                   loc="left", fontsize=10)  # fmt: skip
    axes.legend(frameon=False, fontsize=10, loc="lower left")
    words = say("Gradient along the chain, d_k", "El gradiente a lo largo de la cadena, d_k")
    return inline(figure, f"{words} {pair.d_k}")


def _numbers(pair: Twins, say: Speaker) -> str:
    medians = [float(np.median(norms["scaled"])) for norms in pair.norms]
    rows = [
        (
            say("std of what softmax receives", "desviación de lo que recibe"),
            [number(m["score std"]) for m in pair.meters],
        ),
        (say("entropy / log n", "entropía / log n"), [number(m["entropy"]) for m in pair.meters]),
        (
            say("median Jacobian norm of softmax", "norma mediana del jacobiano"),
            [number(m["jacobian"]) for m in pair.meters],
        ),
        (say("median row of dL/dscaled", "fila mediana de dL/dscaled"), [number(m) for m in medians]),
        (say("dead rows", "filas muertas"), [percent(pair.dead(which)) for which in (0, 1)]),
        (say("norm of dL/dW_Q", "norma de dL/dW_Q"), [number(float(norms["W_Q"][0])) for norms in pair.norms]),
    ]
    head = "".join(f"<th>{name}</th>" for name in _names(say))
    body = "".join(f"<tr><th class=left>{html.escape(what)}</th><td>{a}</td><td>{b}</td></tr>" for what, (a, b) in rows)
    top = f"<thead><tr><th>d_k = {pair.d_k}</th>{head}</tr></thead>"
    return f"<div class=scroll tabindex=0><table class=small data-width={pair.d_k}>{top}<tbody>{body}</tbody></table></div>"
