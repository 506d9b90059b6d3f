"""The source of what the rules of an operation call: ``_softmax_rule``, and of a fused operation its reference."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from ..autodiff.graph import Op

Function = Callable[..., Any]


def sources(op: Op) -> list[str]:
    """The source of each function that the rules of `op` call, and of its reference, the same in primitives.

    Operations are primitives and are left out.

    >>> from tinygrad_attn.autodiff.ops.softmax import softmax
    >>> sources(softmax.op)[0].startswith("def _softmax_rule(")
    True
    """
    found: dict[str, Function] = {}
    for rule in op.rules if op.joint is None else (op.joint,):
        found |= _called(rule) if rule.__name__ == "<lambda>" else {rule.__name__: rule}
    if op.reference is not None:
        found |= {"reference": op.reference} | _called(op.reference)
    return [_source(function) for function in found.values()]


def _called(function: Function) -> dict[str, Function]:
    """The functions of its module that `function` calls."""
    names = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    return {name: f for name, f in names.items() if inspect.isfunction(f) and not hasattr(f, "op")}


def _source(function: Function) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):  # typed at a prompt
        return function.__qualname__
