"""The words of an error in an operation: which op, what came, from which line of the user's, what to write instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import device_of
from .graph import calling_line
from .origin import describe


def failure(name: str, arguments: Sequence[str], values: Sequence[Any], error: Exception) -> Exception:
    """The same kind of error, saying which op, what came, from which line, and what to write."""
    if isinstance(values[0], (list, tuple)) and any(hasattr(v, "shape") for v in values[0]):
        # an operation on a sequence: number its operands
        arguments, values = [f"{arguments[0]}[{i}]" for i in range(len(values[0]))], values[0]
    arrays = {a: v for a, v in zip(arguments, values) if hasattr(v, "dtype") and isinstance(v.shape, tuple)}
    got = ", ".join(
        f"{argument} {value.shape}" + ("" if value.dtype.kind == "f" else f" {value.dtype}")
        for argument, value in arrays.items()
    )
    devices = {device_of(value) for value in arrays.values()}
    line = describe(*calling_line(sys._getframe(1)))
    if len(devices) > 1:
        where = ", ".join(f"{argument} on {device_of(value)}" for argument, value in arrays.items())
        return TypeError(f"{name}: expected arrays on one device, got {where}; move one with .to(device)\n  at {line}")
    kind = type(error) if type(error) in (ValueError, TypeError, IndexError, np.exceptions.AxisError) else ValueError
    reason = str(error)
    if "broadcast" in reason or "shape-mismatch" in reason or "shape mismatch" in reason:
        reason = "expected shapes that broadcast (equal, or 1, counted from the last axis)"
    return kind(f"{name}: {reason}" + (f"; got {got}" if got else "") + f"\n  at {line}")
