"""The answers of the live page as HTML.  Every word that comes from outside is escaped here and nowhere else."""

from __future__ import annotations

import html

import numpy as np

from ...show.matrix import MANY, matrix_html
from ...show.numbers import number, percent
from ..kit import Speaker, asset, figure, number_table
from ..look import Answer
from .answers import CHARACTERS, WORDS, Bench, Learned

METERS = ("score_std", "entropy", "jacobian", "row_gradient", "dead")


def style() -> str:
    return f"<style>{asset('matrix.css')}{asset('play/play.css')}</style>"


def inside(*parts: str) -> str:
    return f'<div class="ta">{"".join(parts)}</div>'


def limits(learned: Learned, say: Speaker) -> str:
    return f"<p class=dim>{say('play.limits', limit=learned.limit, words=WORDS, characters=CHARACTERS)}</p>"


def model_html(words: list[str], answer: Answer, keep: np.ndarray, gradients: bool, say: Speaker) -> str:
    """Every head of the model on the sentence: weights, or the gradients of the loss to the scores."""
    probabilities = ", ".join(f"<b>{html.escape(word)}</b> {percent(p)}" for word, p in answer.answers)
    target = html.escape(answer.target)
    why = say("play.own", target=target) if answer.right is None else say("play.right", target=target)
    figures = ""
    for i, layer in enumerate(answer.layers):
        what = layer.gradient.get("scores") if gradients else layer.value["weights"]
        for head in range(layer.heads):
            caption, name = f"{say('Layer')} {i}, {say('head')} {head}", f"model-{i}-{head}"
            if what is None:
                figures += figure(caption, say("no gradient"))
            else:
                figures += matrix_html(what[head], words, words, keep, caption=caption, signed=gradients, name=name)
    line = f"<p id=ta-answers>{probabilities}. {why} {say('play.loss', loss=number(answer.loss))}</p>"
    return line + _grid(figures, words, say)


def trouble_html(learned: Learned, text: str, say: Speaker) -> str:
    """Why the model cannot read the sentence, openly; empty where it can."""
    parts, unknown = learned.parts(text), learned.unknown(text)
    said = [] if parts else [say("play.nothing")]
    if unknown:
        some = [f"<bdi>{html.escape(word[:40])}</bdi>" for word in unknown[:12]] + ["…"] * (len(unknown) > 12)
        known = html.escape(" ".join(learned.vocabulary[:100]).replace("\n", "↵"))
        said.append(say("play.unknown", unknown=", ".join(some), known=f"<code>{known}</code>"))
    if len(parts) > learned.limit:
        said.append(say("play.long", count=len(parts), limit=learned.limit))
    return "".join(f"<p class=warn>{line}</p>" for line in said)


def bench_html(found: Bench, keep: np.ndarray, gradients: bool, say: Speaker) -> str:
    """Scores, scaled scores, weights and mix over random vectors, or their gradients, and the meters."""
    shown = found.gradient if gradients else found.value
    features = [str(i) for i in range(found.value["mix"].shape[-1])]
    figures = ""
    for name in ("scores", "scaled", "weights", "mix"):
        columns, mask = (features, None) if name == "mix" else (found.words, keep)
        caption, signed = f"dL/d({name})" if gradients else name, gradients or name != "weights"
        figures += matrix_html(
            shown[name], found.words, columns, mask, caption=caption, signed=signed, name=f"bench-{name}"
        )
    meters = {say(name): [(percent if name == "dead" else number)(getattr(found, name))] for name in METERS}
    return number_table(meters) + _grid(figures, found.words, say)


def _grid(figures: str, words: list[str], say: Speaker) -> str:
    shade = f"<p class=dim>{say('play.shade')}</p>" if len(words) > MANY else ""
    return f"{shade}<div class=grid>{figures}</div>"
