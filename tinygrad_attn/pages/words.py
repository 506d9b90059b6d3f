"""The words of the pages, in every language: words.toml, asked by name.

say = speaker("es")
say("play.right", target="-s")  ->  "Lo correcto es -s."
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache

from ..lab.words import LANGUAGES
from .parts import asset

Speaker = Callable[..., str]


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """name -> language -> text, with {braces} where the page fills something in."""
    return tomllib.loads(asset("words.toml"))


def speaker(language: str) -> Speaker:
    """say(name, **values): the text of that name in one language.  `values` that may hold markup are escaped already.

    Errors: ValueError for another language; KeyError for a name or a value that is missing.

    >>> speaker("es")("head")
    'cabeza'
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    return lambda name, /, **values: catalogue()[name][language].format(**values)


def script_words(say: Speaker) -> dict[str, str]:
    """What the report's script says: the names that begin with ``script.``."""
    return {name.removeprefix("script."): say(name) for name in catalogue() if name.startswith("script.")}
