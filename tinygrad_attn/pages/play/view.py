"""The answers of the live page as HTML.  Every word that comes from outside is escaped here and nowhere else."""

from __future__ import annotations

import html

import numpy as np

from ...lab.words import Speaker
from ...show.matrix import MANY, matrix_html
from ...show.numbers import number, percent
from ..report.assets import asset
from .answers import CHARACTERS, WORDS, Answer, Bench, Learned

_VARIABLES = """
.ta{--ink:#1c1c1c;--paper:#fff;--dim:#5c5c5c;--line:#d5d5d5;--mark:#0b57d0;--shade:#f3f5f8;--warm:#c2410c;
  color:var(--ink);font-size:1rem;line-height:1.5;max-width:100%}
.dark .ta{--ink:#e8e8e8;--paper:#151718;--dim:#a3a3a3;--line:#3a3d40;--mark:#8ab4f8;--shade:#202426;--warm:#ff9d76}
.dark .ta table.matrix td.middle{color:var(--paper)}
.ta h1{font-size:1.55rem;font-weight:700;margin:0 0 .3rem}
.ta h2{font-size:1.2rem;font-weight:700;margin:.6rem 0 .2rem}.ta p{margin:.3rem 0;max-width:46rem;overflow-wrap:anywhere}
.ta .grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:1rem 1.4rem;
  align-items:start}
.ta figure{margin:.4rem 0;min-width:0}.ta figcaption{font-weight:600;font-size:.92rem}
.ta small{font-weight:400;color:var(--dim)}.ta .warn{border-left:4px solid var(--warm);padding-left:.6rem}
.ta .dim{color:var(--dim);font-size:.9rem}.ta table.numbers{font-variant-numeric:tabular-nums;border-collapse:collapse}
.ta table.numbers td,.ta table.numbers th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
.ta table.numbers th{font-weight:400;text-align:left}.ta table.matrix{border-collapse:collapse;color:var(--ink)}
"""


def style() -> str:
    return f"<style>{asset('matrix.css')}{_VARIABLES}</style>"


def inside(*parts: str) -> str:
    return f'<div class="ta">{"".join(parts)}</div>'


def model_html(words: list[str], answer: Answer, keep: np.ndarray, gradients: bool, say: Speaker) -> str:
    """Every head of the model on the sentence: weights, or the gradients of the loss to the scores."""
    probabilities = ", ".join(f"<b>{html.escape(word)}</b> {percent(p)}" for word, p in answer.answers)
    target = html.escape(answer.target)
    if answer.right is None:
        why = say(f"No rule says what is right here; the loss asks for its own answer, {target}.",
                  f"Ninguna regla dice qué es correcto aquí; la pérdida pide su propia respuesta, {target}.")  # fmt: skip
    else:
        why = say(f"Right is {target}.", f"Lo correcto es {target}.")
    figures = ""
    for i, layer in enumerate(answer.layers):
        for head in range(layer.heads):
            what = layer.gradient.get("scores") if gradients else layer.value["weights"]
            title = f"{say('Layer', 'Capa')} {i}, {say('head', 'cabeza')} {head}"
            if what is None:
                figures += f"<figure><figcaption>{title}</figcaption>{say('no gradient', 'sin gradiente')}</figure>"
            else:
                name = f"model-{i}-{head}"
                figures += matrix_html(what[head], words, words, keep, caption=title, signed=gradients, name=name)
    line = f"<p id=ta-answers>{probabilities}. {why} {say('Loss', 'Pérdida')} {number(answer.loss)}.</p>"
    return f"{line}{_shade(len(words), say)}<div class=grid>{figures}</div>"


def trouble_html(learned: Learned, text: str, say: Speaker) -> str:
    """Why the model cannot read the sentence, openly; empty where it can."""
    parts, unknown = learned.parts(text), learned.unknown(text)
    if not parts:
        return f"<p class=warn>{say('Type a sentence.', 'Escribe una frase.')}</p>"
    said = ""
    if unknown:
        shown = ", ".join(f"<bdi>{html.escape(word[:40])}</bdi>" for word in unknown[:12]) + (
            ", …" if len(unknown) > 12 else ""
        )
        words = html.escape(" ".join(learned.vocabulary[:100]).replace("\n", "↵"))
        said += f"<p class=warn>{say('The model has never seen', 'El modelo nunca ha visto')}: {shown}. "
        said += f"{say('It knows', 'Conoce')}: <code>{words}</code></p>"
    if len(parts) > learned.limit:
        said += "<p class=warn>" + say(
            f"{len(parts)} tokens are too many: the model reads {learned.limit}.",
            f"{len(parts)} tokens son demasiados: el modelo lee {learned.limit}.",
        ) + "</p>"  # fmt: skip
    return said


def bench_html(found: Bench, keep: np.ndarray, gradients: bool, say: Speaker) -> str:
    """Scores, scaled scores, weights and mix over random vectors, or their gradients, and the meters."""
    shown = found.gradient if gradients else found.value
    columns = [str(i) for i in range(found.value["mix"].shape[-1])]
    figures = ""
    for name in ("scores", "scaled", "weights", "mix"):
        caption = f"dL/d({name})" if gradients else name
        names = columns if name == "mix" else found.words
        hide = None if name == "mix" else keep
        signed = gradients or name != "weights"
        figures += matrix_html(
            shown[name], found.words, names, hide, caption=caption, signed=signed, name=f"bench-{name}"
        )
    meters = (
        (say("std of what softmax receives", "desviación de lo que recibe el softmax"), "std", number(found.score_std)),
        (say("entropy / log keys", "entropía / log claves"), "entropy", number(found.entropy)),
        (
            say("median Jacobian norm of softmax", "norma mediana del jacobiano del softmax"),
            "jacobian",
            number(found.jacobian),
        ),
        (
            say("median row norm of dL/dscaled", "norma mediana de las filas de dL/dscaled"),
            "row",
            number(found.row_gradient),
        ),
        (
            say("dead rows (below 1e-3)", "filas muertas (menos de 1e-3)"),
            "dead",
            percent(found.dead),
        ),
    )
    rows = "".join(f"<tr><th>{what}</th><td data-meter={key}>{value}</td></tr>" for what, key, value in meters)
    return f"<table class=numbers>{rows}</table>{_shade(len(found.words), say)}<div class=grid>{figures}</div>"


def _shade(words: int, say: Speaker) -> str:
    text = say("Shade of weights: their square root.", "Sombra de los pesos: su raíz cuadrada.")
    return f"<p class=dim>{text}</p>" if words > MANY else ""


def limits(learned: Learned, say: Speaker) -> str:
    text = say(
        f"The trained model reads up to {learned.limit} tokens; random vectors take the first {WORDS} words. Of what you "
        f"type, {CHARACTERS:,} characters are read.",
        f"El modelo entrenado lee hasta {learned.limit} tokens; los vectores al azar toman las primeras {WORDS} palabras. De "
        f"lo que escribes se leen {CHARACTERS:,} caracteres.",
    )
    return f"<p class=dim>{text}</p>"
