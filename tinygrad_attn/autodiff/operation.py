"""Defining an operation: a forward function and its rules become one callable (see recording.py).

    @op(vjps={"x": lambda g, y: g * y,
              "y": lambda g, x: g * x}, broadcasts=True)
    def mul(x, y):
        return x * y

On plain arrays ``mul`` just computes.  On tensors it computes and records.  Rules are written with
such operations, so the same line serves backward (plain arrays) and backward of backward (tensors).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .dtypes import plain
from .graph import Op
from .recording import recorder

Rule = Callable[..., Any]


def op(
    *,
    vjps: Mapping[str, Rule] | Sequence[Rule] | Rule | None = None,
    joint: Rule | None = None,
    traced: Sequence[str] = (),
    reference: Callable[..., Any] | None = None,
    broadcasts: bool = False,
    views: bool = False,
    variadic: bool = False,
    saves: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a differentiable operation of a forward function on arrays.

    vjps: for each differentiable argument its rule, by name, or in the order of the arguments; a rule
    names what it needs (see graph.py).  joint: one rule for all the arguments in `traced`; it may also
    ask for `needs`, a tuple of booleans, and returns a tuple (None where not needed).
    reference: the same operation in primitives; gradients of gradients go through it.
    broadcasts: gradients are summed to each argument's shape.  views: the result shares memory with
    the argument.  variadic: the first argument is a sequence.  saves: the forward returns (out, saved).

    Errors: TypeError when a rule asks for a name that the forward does not have.

    >>> import tinygrad_attn as ta
    >>> @ta.op(vjps={"x": lambda g, x: g * 3 * x**2})
    ... def cube(x):
    ...     return x * x * x
    >>> x = ta.Tensor([2.0], requires_grad=True)
    >>> cube(x).backward(); x.grad.numpy()
    array([12.], dtype=float32)
    """

    def define(forward: Callable[..., Any]) -> Callable[..., Any]:
        made = _build(forward, vjps, joint, traced)
        made.reference, made.broadcasts, made.variadic, made.saves = reference, broadcasts, variadic, saves
        made.views, made.pull = views, _pull(made)
        call = recorder(made)
        functools.update_wrapper(call, forward)
        call.op = made  # type: ignore[attr-defined]
        return call

    return define


def _build(forward: Callable[..., Any], vjps: Any, joint: Rule | None, traced: Sequence[str]) -> Op:
    parameters = inspect.signature(forward).parameters
    arguments = tuple(parameters)
    defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
    made = Op(forward.__name__, forward, arguments, defaults)
    if callable(vjps):
        vjps = (vjps,)
    if vjps is not None and not isinstance(vjps, Mapping):
        vjps = dict(zip(arguments, vjps, strict=False))
    rules = dict(vjps or {})
    for argument in (*rules, *traced):
        if argument not in arguments:
            raise TypeError(f"op {made.name}: a rule is given for {argument!r}; the forward has {', '.join(arguments)}")
    positions = [arguments.index(argument) for argument in (traced if joint else rules)]
    made.traced = tuple(sorted(positions))
    made.rules = tuple(rules[arguments[i]] for i in made.traced) if joint is None else ()
    made.joint = joint
    allowed = {"out", "saved", *arguments, *(f"{argument}_shape" for argument in arguments)}
    if not made.rules and joint is None:
        raise TypeError(f'op {made.name}: expected a rule, as vjps={{"x": lambda g, ...}} or joint=')
    for rule in made.rules or (joint,):
        names = tuple(inspect.signature(rule).parameters)  # type: ignore[arg-type]
        if not names or names[0] != "g":
            raise TypeError(f"op {made.name}: a rule's first parameter must be g, got ({', '.join(names)})")
        need = tuple(name for name in names[1:] if not (joint and name == "needs"))
        for name in need:
            if name not in allowed:
                raise TypeError(
                    f"op {made.name}: a rule asks for {name!r}; it may ask for {', '.join(sorted(allowed))}"
                )
        made.needs += (need,)
    return made


def _pull(made: Op) -> Callable[..., list[Any]]:
    """All rules as one function of (g, kept, parents); None where no gradient is wanted.
    Calls without a star are written out for the commonest kinds: a star costs 0.1 us."""
    joint, rules, counts = made.joint, made.rules, tuple(len(need) for need in made.needs)
    if joint is not None:
        asked = made.needs[0]
        return lambda g, kept, parents: list(
            joint(g, needs=tuple([p is not None for p in parents]), **{name: kept[0][name] for name in asked})
        )
    rule = rules[0]
    if counts == (0,):
        return lambda g, kept, parents: [rule(g)]
    if counts == (1,):
        return lambda g, kept, parents: [rule(g, kept[0][0])]
    if counts == (0, 0):
        other = rules[1]
        return lambda g, kept, parents: [None if kept[0] is None else rule(g), None if kept[1] is None else other(g)]
    if counts == (1, 1):
        other = rules[1]

        def pull(g: Any, kept: Any, parents: Any) -> list[Any]:
            x, y = kept
            return [None if x is None else rule(g, x[0]), None if y is None else other(g, y[0])]

        return pull
    return lambda g, kept, parents: [None if values is None else rule(g, *values) for rule, values in zip(rules, kept)]


__all__ = ["op", "plain"]
