"""The files of this folder that are not Python: styles and a script."""

from __future__ import annotations

from importlib.resources import files


def asset(name: str) -> str:
    """A file of this folder as text."""
    return (files(__package__) / name).read_text(encoding="utf-8")
