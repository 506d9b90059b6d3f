"""A report as one HTML document: its sections, its style and its script, everything inline."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import numpy as np

from ...attention import scaled_dot_product_attention
from ...autodiff.tensor import Tensor
from ...lab.result import LabTable
from ...lab.words import spoken
from ...probe.stepper import stepper
from ...probe.stepper_page import notebook_frame
from ...show.numbers import percent
from ...show.page import as_json, page
from ..kit import Speaker, asset, script_words, speaker
from .flow import flow_section
from .matrices import matrix_section, page_data, rounded, steps_section
from .subject import Subject
from .svg import inline
from .temperature import temperature_data, temperature_section
from .twin import WIDTHS, twin_section


def report(subject: Subject, language: str = "en", widths: tuple[int, ...] = WIDTHS) -> str:
    """The page about one trained model, in English or Spanish."""
    say = speaker(language)
    heat = temperature_data(subject)
    heat_text, places = temperature_section(heat, say)
    sections = {
        "matrix": (say("matrix.title"), matrix_section(subject, say)),
        "steps-section": (say("steps.title"), steps_section(subject, say)),
        "flow": (say("flow.title"), flow_section(subject, say)),
        "twin": (say("twin.title"), twin_section(say, widths)),
        "heat": (say("heat.title"), heat_text),
        "stepper": (say("stepper.title"), _stepper_section(say, language)),
    }
    data = page_data(subject, say) | {"temperature": {"at": rounded(heat["at"]), "places": rounded(places, 6)}}
    return _document(say("report.title"), _summary(subject, say), sections, data, language)


def lab_report(tables: list[tuple[str, LabTable]], language: str = "en") -> str:
    """The page of the lab: each experiment's question, table, verdicts and picture."""
    say = speaker(language)
    texts = [(html.escape(question), _experiment(table)) for question, table in tables]
    sections = {f"lab-{place}": text for place, text in enumerate(texts)}
    return _document(say("report.lab"), "", sections, {}, language)


def _experiment(table: LabTable) -> str:
    """The answers first, then what they rest on."""
    verdicts = ""
    for verdict in table.verdicts:
        kind, sign = ("holds", "✓") if verdict.holds else ("fails", "✗")
        verdicts += (
            f"<li class={kind}><span aria-hidden=true>{sign}</span> {html.escape(verdict.text(table.language))}</li>"
        )
    numbers = replace(table, verdicts=()).to_html(level=3)
    title = spoken(table.title, table.language)
    picture = f"<figure>{inline(table.plot(), title)}</figure>" if table.picture is not None else ""
    return f'<ul class=verdicts>{verdicts}</ul><div class="grid lab"><div>{numbers}</div>{picture}</div>'


def _document(title: str, intro: str, sections: dict[str, tuple[str, str]], data: dict[str, Any], language: str) -> str:
    """sections: id -> its heading and its text, both HTML.  data: for the script, beside its words."""
    say = speaker(language)
    style = asset("matrix.css") + asset("report/page.css")
    entries = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, (heading, _) in sections.items())
    nav = f'<nav aria-label="{say("report.contents")}"><ol>{entries}</ol></nav>'
    main = "".join(f"<section id={name}><h2>{head}</h2>{text}</section>" for name, (head, text) in sections.items())
    body = f"<h1>{title}</h1>{intro}{nav}<noscript><p>{say('report.noscript')}</p></noscript><main>{main}</main>"
    body += f"<script id=data type=application/json>{as_json({**data, 'say': script_words(say)})}</script>"
    return page(title, body, style, asset("report/page.js"), lang=language)


def _summary(subject: Subject, say: Speaker) -> str:
    answer, probability = subject.last.answers[0]
    bold = {"name": _bold(subject.name), "answer": _bold(answer), "right": _bold(subject.target)}
    words = say("report.summary", subject=subject, probability=percent(probability), **bold)
    return f"<p class=sentence><bdi>{html.escape(subject.sentence)}</bdi></p><p>{words}</p>"


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
    return f"<p>{say('stepper.intro')}</p>{notebook_frame(stepper(loss, W), language)}"
