"""English and Spanish.  An experiment writes English; spanish.toml holds the Spanish, keyed by the English.

    Text("at most {:.1f} standard errors away", 1.23)     "at most 1.2 standard errors away"
    spoken(that, "es")                                    "a lo sumo a 1.2 errores típicos"

Where there are only a few texts (lessons, pages) both languages stand side by side:

    say = speaker("es")
    say("scaled", "escalado")                             "escalado"
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "es")

Speaker = Callable[[str, str], str]


def checked(language: str) -> str:
    """`language` itself.  Errors: ValueError for one that the lab does not speak."""
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    return language


def speaker(language: str) -> Speaker:
    """A function that picks the English or the Spanish text of a pair.

    Errors: ValueError for another language.

    >>> speaker("es")("yes", "sí")
    'sí'
    """
    place = LANGUAGES.index(checked(language))
    return lambda *pair: pair[place]


class Text(str):
    """An English text with its values filled in, which remembers both, so that it can still be said in Spanish.

    >>> Text("{} of {total:,}", 1, total=2000)
    '1 of 2,000'
    """

    template: str
    values: tuple[Any, ...]
    named: dict[str, Any]

    def __new__(cls, template: str, *values: Any, **named: Any) -> Text:
        text = super().__new__(cls, template.format(*values, **named))
        text.template, text.values, text.named = template, values, named
        return text


@lru_cache(maxsize=1)
def spanish() -> dict[str, str]:
    """English text -> Spanish text."""
    return tomllib.loads(Path(__file__).with_name("spanish.toml").read_text(encoding="utf-8"))


def spoken(text: str, language: str) -> str:
    """`text` in `language`; in English where spanish.toml does not have it (a test sees to it that it has).

    >>> spoken("HOLDS", "es"), spoken(Text("std {:.1f}", 8.0), "en"), spoken("my own words", "es")
    ('SE CUMPLE', 'std 8.0', 'my own words')
    """
    if language == "en":
        return str(text)
    if isinstance(text, Text):
        return spanish().get(text.template, text.template).format(*text.values, **text.named)
    return spanish().get(text, text)
