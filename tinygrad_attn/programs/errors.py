"""What goes wrong with a program."""

from __future__ import annotations


class ProgramError(RuntimeError):
    """A step that cannot be noted, or a program that was asked to run where it does not hold."""
