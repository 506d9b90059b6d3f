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
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol

from .dtypes import plain
from .graph import Op, Rule
from .recording import recorder

P = ParamSpec("P")


class Operation(Protocol[P]):
    """What ``@op`` gives: a function with the forward's own parameters, and the operation as data in ``.op``."""

    op: Op
    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., Any]: ...  # as a method: `x.__add__`


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
) -> Callable[[Callable[P, Any]], Operation[P]]:
    """Make a differentiable operation of a forward function on arrays.

    vjps: for each differentiable argument its rule, by name, or in the order of the arguments; a rule
    names what it needs (see graph.py).  joint: one rule for all the arguments in `traced`; it may also
    ask for `needs`, a tuple of booleans, and returns a tuple (None where not needed).
    reference: the same operation in primitives; gradients of gradients go through it.
    broadcasts: gradients are summed to each argument's shape.  variadic: the first argument is a sequence.
    saves: the forward returns (out, saved).  views: no longer needed; a view is found by what it shares.

    Errors: TypeError when a rule asks for a name that the forward does not have.

    >>> import tinygrad_attn as ta
    >>> @ta.op(vjps={"x": lambda g, x: g * 3 * x**2})
    ... def cube(x):
    ...     return x * x * x
    >>> x = ta.Tensor([2.0], requires_grad=True)
    >>> cube(x).backward(); x.grad.numpy()
    array([12.], dtype=float32)
    """

    flags = {"broadcasts": broadcasts, "variadic": variadic, "saves": saves}

    def define(forward: Callable[P, Any]) -> Operation[P]:
        made = _build(forward, vjps, joint, traced, reference, flags)
        call = recorder(made)
        functools.update_wrapper(call, forward)
        call.op = made  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return define


def _build(
    forward: Callable[..., Any],
    vjps: Any,
    joint: Rule | None,
    traced: Sequence[str],
    reference: Callable[..., Any] | None,
    flags: Mapping[str, bool],
) -> Op:
    name, parameters = forward.__name__, inspect.signature(forward).parameters
    arguments = tuple(parameters)
    rules = _by_name(vjps, arguments)
    for argument in (*rules, *traced):
        if argument not in arguments:
            raise TypeError(f"op {name}: a rule is given for {argument!r}; the forward has {', '.join(arguments)}")
    places = tuple(sorted(arguments.index(argument) for argument in (traced if joint else rules)))
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    in_order = () if joint else tuple(rules[arguments[i]] for i in places)
    made = Op(name, forward, arguments, defaults, places, in_order, joint, reference, **flags)
    _check(made)
    return made


def _by_name(vjps: Any, arguments: tuple[str, ...]) -> dict[str, Rule]:
    """The rules by argument, however they were given: one, several in order, or by name."""
    if vjps is None or isinstance(vjps, Mapping):
        return dict(vjps or {})
    return dict(zip(arguments, (vjps,) if callable(vjps) else vjps))


def _check(op: Op) -> None:
    """Does every rule start with g, and ask only for what there is?"""
    if not op.rules and op.joint is None:
        raise TypeError(f'op {op.name}: expected a rule, as vjps={{"x": lambda g, ...}} or joint=')
    for rule in (op.joint,) if op.joint is not None else op.rules:
        names = tuple(inspect.signature(rule).parameters)
        if names[:1] != ("g",):
            raise TypeError(f"op {op.name}: a rule's first parameter must be g, got ({', '.join(names)})")
    allowed = {"out", "saved", *op.arguments, *(f"{argument}_shape" for argument in op.arguments)}
    for name in itertools.chain.from_iterable(op.needs):
        if name not in allowed:
            raise TypeError(f"op {op.name}: a rule asks for {name!r}; it may ask for {', '.join(sorted(allowed))}")


__all__ = ["op", "plain"]
