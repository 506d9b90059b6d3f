"""The rule of an operation as its source says it: ``dL/dx = g * y``."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

from ..autodiff.graph import Op


def formulas(op: Op) -> list[tuple[str, str]]:
    """(what it gives, how) for each rule of `op`; a joint rule is one entry with the whole function.

    >>> from tinygrad_attn.autodiff.ops.elementwise import mul
    >>> formulas(mul.op)
    [('dL/dx', 'g * y'), ('dL/dy', 'g * x')]
    """
    if op.joint is not None:
        gives = ", ".join(f"dL/d{op.arguments[i]}" for i in op.traced) or f"dL/d{op.arguments[0]}[i]"
        return [(gives, expression(op.joint))]
    return [(f"dL/d{op.arguments[i]}", expression(rule)) for i, rule in zip(op.traced, op.rules)]


def helpers(op: Op) -> list[str]:
    """The source of the functions that the rules call by a private name (``_kept``), one level deep; of a fused
    operation its reference, the same in primitives."""
    found: dict[str, str] = {}
    for rule in op.rules or ((op.joint,) if op.joint else ()):
        if rule is None or rule.__name__ != "<lambda>":
            continue
        for name in rule.__code__.co_names:
            helper = rule.__globals__.get(name) if name.startswith("_") and name != "_cast" else None
            if inspect.isfunction(helper):
                found[name] = function_source(helper)
    if op.reference is not None:
        found["reference"] = function_source(op.reference)
        for name in op.reference.__code__.co_names:
            helper = op.reference.__globals__.get(name)
            if inspect.isfunction(helper) and not hasattr(helper, "op"):  # an operation is a primitive
                found[name] = function_source(helper)
    return list(found.values())


def expression(rule: Callable[..., Any]) -> str:
    """The body of a lambda, or the whole of a function; its name where the source is not at hand."""
    if rule.__name__ != "<lambda>":
        return function_source(rule)
    code = rule.__code__
    names = list(code.co_varnames[: code.co_argcount])
    same = [
        node
        for node in _lambdas(code.co_filename)
        if node.lineno == code.co_firstlineno and [argument.arg for argument in node.args.args] == names
    ]
    if len(same) > 1:  # several on a line: the one whose body holds the instructions
        places = [
            (line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None
        ]
        line, column = places[-1]
        same = [
            n for n in same if n.body.lineno <= line and n.body.col_offset <= column < (n.body.end_col_offset or 0)
        ] or same
    return _segment(code.co_filename, same[0].body) if same else f"{rule.__qualname__}"


def function_source(function: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):
        return f"{function.__qualname__}"


@functools.cache
def _lambdas(filename: str) -> list[ast.Lambda]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def _segment(filename: str, node: ast.expr) -> str:
    text = ast.get_source_segment("".join(linecache.getlines(filename)), node) or ""
    return " ".join(text.split())
