"""Columns that several experiments share."""

from __future__ import annotations

from ..show.table import Column, percent
from .words import Speaker


def accuracy_and_spread(say: Speaker) -> tuple[Column, Column]:
    """The mean accuracy over the seeds, and its standard deviation."""
    return (
        Column("accuracy", say("accuracy", "acierto"), percent),
        Column("spread", say("spread", "dispersión"), "{:.3f}".format),
    )


def yes_or_no(key: str, title: str, say: Speaker) -> Column:
    """A column of booleans.

    >>> from tinygrad_attn.lab.words import speaker
    >>> yes_or_no("tied", "W_Q = W_K", speaker("es")).form(True)
    'sí'
    """
    return Column(key, title, lambda holds: say("yes", "sí") if holds else "no", left=True)
