"""Section: the same attention twice, with and without 1/sqrt(d_k), over a grid of d_k made beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ...autodiff.blas import one_thread_blas
from ...autodiff.tensor import Tensor
from ...nn import MultiHeadAttention
from ...probe import compare
from ...probe.compare import CHAIN
from ...show.numbers import number, percent
from ...show.pictures import SCALED, UNSCALED
from ..kit import Speaker, frames, number_table, slider
from .svg import inline, plain_axes

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
SEQUENCES, KEYS, D_MODEL, D_V = 40, 16, 64, 16
DEAD = 1e-3


@dataclass(frozen=True)
class Twins:
    """Of one d_k, [scaled, unscaled] each: what softmax receives, its meters, the row norms along the chain."""

    d_k: int
    inputs: list[np.ndarray]
    meters: list[dict[str, float]]
    norms: list[dict[str, np.ndarray]]

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
        return MultiHeadAttention(D_MODEL, 1, seed, scale=scale, attention="explicit", **sizes).astype("float64")

    x = Tensor(np.random.default_rng([seed, 9]).standard_normal((sequences, KEYS, D_MODEL)))
    with one_thread_blas():
        variants = compare(make, (x,), seed=seed).variants
    inputs = [variant.seen["scaled"].value.numpy().ravel() for variant in variants]
    norms = [{step: n for step in CHAIN if (n := v.norms("", step)) is not None} for v in variants]
    return Twins(d_k, inputs, [variant.saturation("") for variant in variants], norms)


def twin_section(say: Speaker, widths: tuple[int, ...] = WIDTHS) -> str:
    pictures = [_pictures(twins(d_k), say) for d_k in widths]
    start = widths.index(64) if 64 in widths else 0
    note = say("twin.note", rows=SEQUENCES * KEYS, keys=KEYS, d_model=D_MODEL)
    chosen = slider("d_k", "d_k", "d_k", widths, start) + frames(pictures, "d_k")
    return f"<p>{say('twin.intro')}</p>{chosen}<p class=note>{note}</p>"


def _pictures(pair: Twins, say: Speaker) -> str:
    """What softmax receives, the norms along the chain, and both in numbers."""
    names = say("scaled"), say("unscaled")
    std = [number(meters["score std"], 2) for meters in pair.meters]
    inputs = inline(_inputs(pair, names, say), say("twin.inputs of", d_k=pair.d_k, scaled=std[0], unscaled=std[1]))
    chain = inline(_chain(pair, names, say), say("twin.chain of", d_k=pair.d_k))
    meters = {"score_std": "score std", "entropy": "entropy", "jacobian": "jacobian"}
    rows = {say(name): [number(m[key]) for m in pair.meters] for name, key in meters.items()}
    rows[say("row_gradient")] = [number(float(np.median(norms["scaled"]))) for norms in pair.norms]
    rows[say("dead")] = [percent(pair.dead(which)) for which in (0, 1)]
    rows[say("dW_Q")] = [number(float(norms["W_Q"][0])) for norms in pair.norms]
    numbers = number_table(rows, [f"d_k = {pair.d_k}", *names])
    return f"<div class=grid><figure>{inputs}</figure><figure>{chain}</figure>{numbers}</div>"


def _inputs(pair: Twins, names: tuple[str, str], say: Speaker) -> Figure:
    figure, axes = plain_axes(4.6, 3.4, say("twin.inputs"), yticks=[], ylim=(0, 0.45))
    edges = np.linspace(-40, 40, 81)
    for values, colour, name in zip(pair.inputs, (SCALED, UNSCALED), names):
        counts, _ = np.histogram(np.clip(values, -39.9, 39.9), edges)
        axes.stairs(counts / counts.sum(), edges, color=colour, lw=2, label=name)
    axes.set_xticks([-40, -20, 0, 20, 40], ["≤ −40", "−20", "0", "20", "≥ 40"])
    axes.legend(frameon=False, fontsize=10)
    return figure


def _chain(pair: Twins, names: tuple[str, str], say: Speaker) -> Figure:
    figure, axes = plain_axes(4.6, 3.4, say("twin.chain"), yscale="log", ylim=(1e-9, 1e3))
    steps = [step for step in CHAIN if step in pair.norms[0] and step in pair.norms[1]]
    for norms, colour, name in zip(pair.norms, (SCALED, UNSCALED), names):
        quantiles = np.array([np.quantile(norms[step], (0.05, 0.5, 0.95)) for step in steps])
        low, median, high = np.maximum(quantiles, 1e-12).T
        axes.fill_between(range(len(steps)), low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(range(len(steps)), median, "o-", ms=4, color=colour, lw=2, label=name)
    axes.set_xticks(range(len(steps)), steps, fontsize=9)
    axes.legend(frameon=False, fontsize=10, loc="lower left")
    return figure
