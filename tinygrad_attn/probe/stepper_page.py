"""The stepper as one HTML file: every step precomputed, moved through by keys, buttons or touch.  No network.

stepper.html is the body, stepper.css its style, stepper.js what moves, stepper.toml the words of each language."""

from __future__ import annotations

import html
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from string import Template

from ..show.page import as_json, page
from .stepview import StepView, as_data


def words(language: str) -> dict[str, str]:
    """The words of the page.  Errors: ValueError for a language that has none."""
    found = tomllib.loads(_asset("toml"))
    if language not in found:
        raise ValueError(f"language: expected one of {', '.join(found)}, got {language!r}")
    return found[language]


def stepper_page(views: Iterable[StepView], language: str = "en") -> str:
    """The steps (a Stepper gives all of its own) as one HTML document, in English or Spanish ("es")."""
    say = words(language)
    body = Template(_asset("html")).substitute({name: html.escape(word) for name, word in say.items()})
    data = as_json({"steps": list(views), "say": say}, as_data)
    script = f'"use strict";\nconst DATA = {data};\n{_asset("js")}'
    return page(say["title"], body, _asset("css"), script, lang=language)


def notebook_frame(views: Iterable[StepView], language: str = "en") -> str:
    """The page inside a notebook cell: a frame of its own, so that its keys and styles stay in it."""
    source, title = html.escape(stepper_page(views, language)), html.escape(words(language)["title"])
    style = "width:100%;height:40rem;border:1px solid #999"
    return f'<iframe srcdoc="{source}" style="{style}" title="{title}"></iframe>'


def _asset(kind: str) -> str:
    return (files(__package__) / f"stepper.{kind}").read_text(encoding="utf-8")
