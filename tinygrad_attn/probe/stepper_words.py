"""The words of the stepper's page, English and Spanish side by side.  Names, rules and source lines stay as they are."""

from __future__ import annotations

LANGUAGES = ("en", "es")

_PAIRS = (
    ("Backward, step by step", "Backward, paso a paso"),
    ('aria-label="Steps"', 'aria-label="Pasos"'),
    ("first (Home)", "primero (Inicio)"),
    ("back (left arrow)", "atrás (flecha izquierda)"),
    ("&#8592; back<", "&#8592; atrás<"),
    ("next (right arrow)", "siguiente (flecha derecha)"),
    (">next &#8594;<", ">siguiente &#8594;<"),
    ("last (End)", "último (Fin)"),
    ('aria-label="step"', 'aria-label="paso"'),
    ("> numbers<", "> números<"),
    ("> local Jacobians<", "> jacobianos locales<"),
    ("> source of long rules<", "> código de las reglas largas<"),
    ("keys: &#8592; &#8594; Home End", "teclas: &#8592; &#8594; Inicio Fin"),
    ('aria-label="all steps"', 'aria-label="todos los pasos"'),
    (
        "This page needs JavaScript to move between the steps; it loads nothing from the network.",
        "Esta página necesita JavaScript para moverse entre los pasos; no carga nada de la red.",
    ),
    ('"nothing"', '"nada"'),
    ('" by "', '" por "'),
    ('"Rule"', '"Regla"'),
    ('"sent"', '"enviado"'),
    ('"local Jacobian d(out)/d"', '"jacobiano local d(out)/d"'),
    ('" has received "', '" ha recibido "'),
    ('" of "', '" de "'),
    ('"go to "', '"ir a "'),
    ('" in "', '" en "'),
    ('"Arrives: dL/d(out)"', '"Llega: dL/d(out)"'),
    ('"Kept from the forward pass"', '"Guardado de la pasada hacia delante"'),
    ('"A leaf"', '"Una hoja"'),
    ('"What arrived is its gradient."', '"Lo que llegó es su gradiente."'),
    ('"step "', '"paso "'),
)


def in_language(page: str, language: str) -> str:
    """The page's own text (before any data stands in it) in a language.

    Errors: ValueError for another language.

    >>> in_language('card("A leaf")', "es")
    'card("Una hoja")'
    """
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(LANGUAGES)}, got {language!r}")
    if language == "es":
        for english, spanish in _PAIRS:
            page = page.replace(english, spanish)
    return page
