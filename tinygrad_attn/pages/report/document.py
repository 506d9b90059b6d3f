"""A report as one HTML document: its sections, its style and its script, everything inline."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import numpy as np

from ...attention import scaled_dot_product_attention
from ...autodiff.tensor import Tensor
from ...lab.result import LabTable
from ...lab.words import Speaker, speaker
from ...probe.stepper import stepper
from ...probe.stepper_page import notebook_frame
from ...show.page import as_json, page
from ...show.table import percent
from .assets import asset
from .flow import flow_section
from .matrices import matrix_section, page_data, short, steps_section
from .subject import Subject
from .svg import inline
from .temperature import temperature_data, temperature_section
from .twin import WIDTHS, twin_section


def report(subject: Subject, language: str = "en", widths: tuple[int, ...] = WIDTHS) -> str:
    """The page about one trained model, in English or Spanish."""
    say = speaker(language)
    heat = temperature_data(subject)
    sections = [
        ("matrix", matrix_section(subject, say)),
        ("steps-section", steps_section(subject, say)),
        ("flow", flow_section(subject, say)),
        ("twin", twin_section(say, widths)),
        ("heat", temperature_section(subject, heat, say)),
        ("stepper", _stepper_section(say, language)),
    ]
    title = say("Where the gradient goes in attention", "Adónde va el gradiente en la atención")
    intro = f"<h1>{title}</h1>{_summary(subject, say)}"
    data = {**page_data(subject, say), "temperature": _plain(heat), "say": _words(say)}
    return _document(title, intro, sections, data, language, say)


def lab_report(tables: list[tuple[str, LabTable]], language: str = "en") -> str:
    """The page of the lab: each experiment's question, table, verdicts and picture."""
    say = speaker(language)
    sections = [(f"lab-{place}", _experiment(question, table, say)) for place, (question, table) in enumerate(tables)]
    title = say("Experiments on attention", "Experimentos sobre la atención")
    return _document(title, f"<h1>{title}</h1>", sections, {"say": _words(say)}, language, say)


def _experiment(question: str, table: LabTable, say: Speaker) -> str:
    """A question, its answers first, then what they rest on."""
    verdicts = ""
    for verdict in table.verdicts:
        kind, sign = ("holds", "✓") if verdict.holds else ("fails", "✗")
        verdicts += f"<li class={kind}><span aria-hidden=true>{sign}</span> {html.escape(verdict.text(say))}</li>"
    numbers = replace(table, verdicts=())._repr_html_().replace("<h2>", "<h3>").replace("</h2>", "</h3>")
    numbers = numbers.replace("<div class=scroll>", "<div class=scroll tabindex=0>")  # the keyboard scrolls it, too
    picture = f"<figure>{inline(table.plot(), table.title)}</figure>" if table.picture is not None else ""
    return (
        f"<h2>{html.escape(question)}</h2><ul class=verdicts>{verdicts}</ul>"
        f'<div class="grid lab"><div>{numbers}</div>{picture}</div>'
    )


def _document(
    title: str, intro: str, sections: list[tuple[str, str]], data: dict[str, Any], language: str, say: Speaker
) -> str:
    matrix, style, script = (asset(name) for name in ("matrix.css", "page.css", "page.js"))
    entries = "".join(f'<li><a href="#{name}">{_heading(text)}</a></li>' for name, text in sections)
    nav = f'<nav aria-label="{say("contents", "contenido")}"><ol>{entries}</ol></nav>'
    without = say("The sliders and matrices need JavaScript; nothing is loaded from a network.",
                  "Los controles y las matrices necesitan JavaScript; nada se carga de la red.")  # fmt: skip
    body = "".join(f"<section id={name}>{text}</section>" for name, text in sections)
    whole = f"{intro}{nav}<noscript><p>{without}</p></noscript><main>{body}</main>"
    document = page(title, whole, matrix + style, script.replace("__DATA__", as_json(data)))
    return document.replace('<html lang="en">', f'<html lang="{language}">', 1)


def _heading(section: str) -> str:
    return section.partition("<h2>")[2].partition("</h2>")[0]


def _summary(subject: Subject, say: Speaker) -> str:
    last = subject.last
    probability = percent(last.answers[0][1])
    answer, name, right = (_bold(text) for text in (last.answers[0][0], subject.name, subject.target))
    return (
        f"<p class=sentence><bdi>{html.escape(subject.sentence)}</bdi></p><p>"
        + say(
            f"A model of the task {name}, {subject.parameters:,} parameters, after {last.step} training steps. It answers "
            f"{answer} with probability {probability}; right is {right}. The gradients are those of the loss on this sentence.",
            f"Un modelo de la tarea {name}, {subject.parameters:,} parámetros, tras {last.step} pasos de entrenamiento. "
            f"Responde {answer} con probabilidad {probability}; lo correcto es {right}. Los gradientes son los de la pérdida "
            "en esta frase.",
        )
        + "</p>"
    )


def _bold(text: str) -> str:
    return f"<b{' class=short' if len(text) < 16 else ''}>{html.escape(text)}</b>"


def worked_example() -> tuple[Tensor, dict[str, Tensor]]:
    """Two tokens: X = I, W_Q = I, W_K = swap, W_V = diag(2, 3); the loss is the first entry of the first output.

    >>> round(worked_example()[0].item(), 5)
    0.66048
    """
    x = Tensor(np.eye(2), dtype="float64")
    matrices = {"W_Q": np.eye(2), "W_K": np.eye(2)[::-1], "W_V": np.diag([2.0, 3.0])}
    W = {name: Tensor(m, requires_grad=True, dtype="float64") for name, m in matrices.items()}
    out, _ = scaled_dot_product_attention(x @ W["W_Q"], x @ W["W_K"], x @ W["W_V"])
    return out[0, 0].named("loss"), W


def _stepper_section(say: Speaker, language: str) -> str:
    loss, W = worked_example()
    return (
        f"<h2>{say('Backward, step by step', 'Backward, paso a paso')}</h2><p>"
        + say(
            "Two tokens, small enough for a sheet of paper: X = I, W_Q = I, W_K = swap, W_V = diag(2, 3). The output is "
            "(0.66048, 2.00928); its first entry is the loss. Keys: ← → Home End, once the frame has the focus.",
            "Dos tokens, lo bastante pequeños para una hoja de papel: X = I, W_Q = I, W_K = intercambio, W_V = diag(2, 3). La "
            "salida es (0.66048, 2.00928); su primera entrada es la pérdida. Teclas: ← → Inicio Fin, con el foco en el marco.",
        )
        + f"</p>{notebook_frame(stepper(loss, W), language)}"
    )


def _plain(heat: dict[str, Any]) -> dict[str, Any]:
    at = [{key: short(value) for key, value in one.items()} for one in heat["at"]]
    return {"at": at, "places": short(heat["places"], 6)}


def _words(say: Speaker) -> dict[str, str]:
    return {
        "layer": say("Layer", "Capa"),
        "head": say("head", "cabeza"),
        "looks": say("looks at", "mira a"),
        "hidden": say("hidden by the mask", "oculta por la máscara"),
        "loss": say("loss", "pérdida"),
        "answers": say("answers", "respuestas"),
        "entropy": say("entropy / log n", "entropía / log n"),
        "jacobian": say("Jacobian norm", "norma del jacobiano"),
        "slope": say("Jacobian / T", "jacobiano / T"),
        "asymmetry": say("largest |S − Sᵀ|", "mayor |S − Sᵀ|"),
        "none": say("no gradient", "sin gradiente"),
    }
