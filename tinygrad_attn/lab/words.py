"""Two languages, side by side: each text of the lab stands next to its translation, where it is used.

say = speaker("es")
say("scaled", "escalado")  ->  "escalado"
"""

from __future__ import annotations

from collections.abc import Callable

LANGUAGES = ("en", "es")

Speaker = Callable[[str, str], str]


def speaker(language: str) -> Speaker:
    """A function that picks the English or the Spanish text of a pair.

    Errors: ValueError for another language.

    >>> speaker("es")("yes", "sí")
    'sí'
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    place = LANGUAGES.index(language)
    return lambda *pair: pair[place]
