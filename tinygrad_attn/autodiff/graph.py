"""The graph: what an operation is, and what is remembered when one runs on tensors.

    x ──┐                 Node(mul)  parents:   node of x, node of y
        mul ──> out                  residuals: what each rule asked for, and nothing else
    y ──┘

An operation is data: a forward function on plain arrays, and one rule per differentiable argument.
A rule is a vector-Jacobian product: it takes g = dL/d(out) and gives dL/d(argument).  The *names*
of its parameters say what it needs:

    g          the gradient that comes in
    out        the value that the forward gave
    x, y ...   an argument of the forward, as it was
    x_shape    only its shape (costs no memory)
    axis ...   a setting of the forward
    saved      the second value of a forward declared with ``saves=True``
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import CodeType
from typing import Any

import numpy as np

from .mode import Mode
from .origin import describe, formula, is_inside

Rule = Callable[..., Any]
Pull = Callable[[Any, tuple[Any, ...], tuple[Any, ...]], list[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """An operation as data: `forward`, and for each differentiable argument a rule.

    arguments   names of the forward's parameters, in order; defaults: of those that have one
    traced      positions of those that have a rule
    rules       one per traced argument, or () where a `joint` rule gives all gradients at once
    reference   the same operation in primitives; gradients of gradients go through it
    needs       for each rule, the names it asked for
    pull        all rules as one function of (g, residuals, parents): a list with one gradient per parent

    >>> import tinygrad_attn as ta
    >>> print(ta.exp.op)
    exp(x): dL/dx = g * out   keeps out
    """

    name: str
    forward: Callable[..., Any] = lambda: None
    arguments: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    traced: tuple[int, ...] = ()
    rules: tuple[Rule, ...] = ()
    joint: Rule | None = None
    reference: Callable[..., Any] | None = None
    broadcasts: bool = False  # gradients are summed back to each argument's shape
    variadic: bool = False  # the first argument is a sequence of tensors
    saves: bool = False  # forward gives (out, saved)
    needs: tuple[tuple[str, ...], ...] = field(init=False)
    pull: Pull = field(init=False)

    def __post_init__(self) -> None:
        rules = (self.joint,) if self.joint is not None else self.rules
        names = [tuple(inspect.signature(rule).parameters)[1:] for rule in rules]  # without g
        needs = tuple(tuple(name for name in asked if name != "needs" or self.joint is None) for asked in names)
        object.__setattr__(self, "needs", needs)
        object.__setattr__(self, "pull", _pull(self))

    @property
    def casts(self) -> bool:
        """Does the caller say the result's dtype, which otherwise never widens?"""
        return "dtype" in self.arguments

    def names_of(self, count: int) -> list[str]:
        """The name of each of `count` operands: ``["x", "y"]``, ``["tensors[0]", "tensors[1]"]``."""
        if self.variadic:
            return [f"{self.arguments[0]}[{i}]" for i in range(count)]
        return [self.arguments[i] for i in self.traced]

    def formulas(self) -> list[tuple[str, str]]:
        """(what it gives, how) for each rule, as the source says it: ``[("dL/dx", "g * y"), ("dL/dy", "g * x")]``."""
        gives = [f"dL/d{name}" for name in self.names_of(1)]
        if self.joint is not None:
            return [(", ".join(gives), formula(self.joint))]
        return [(name, formula(rule)) for name, rule in zip(gives, self.rules)]

    def __repr__(self) -> str:
        rules = ", ".join(f"{gives} = {how}" for gives, how in self.formulas())
        kept = dict.fromkeys(name for need in self.needs for name in need if not name.endswith("_shape"))
        keeps = f"   keeps {', '.join(kept)}" if kept else ""
        return f"{self.name}({', '.join(self.arguments)})" + (f": {rules}{keeps}" if rules else "")


def _pull(op: Op) -> Pull:
    """All rules as one function; None where no gradient is wanted.
    The two commonest binary kinds are written out: 0.1 us less."""
    joint, rules = op.joint, op.rules
    if joint is not None:
        asked = op.needs[0]
        return lambda g, residuals, parents: list(
            joint(g, needs=tuple([p is not None for p in parents]), **{name: residuals[0][name] for name in asked})
        )
    counts = tuple(map(len, op.needs))
    if counts == (0, 0):
        for_x, for_y = rules
        return lambda g, residuals, parents: [
            None if parents[0] is None else for_x(g),
            None if parents[1] is None else for_y(g),
        ]
    if counts == (1, 1):
        for_x, for_y = rules
        return lambda g, residuals, parents: [
            None if residuals[0] is None else for_x(g, residuals[0][0]),
            None if residuals[1] is None else for_y(g, residuals[1][0]),
        ]
    return lambda g, residuals, parents: [
        None if values is None else rule(g, *values) for rule, values in zip(rules, residuals)
    ]


LEAF = Op("leaf")  # what made a tensor that the user made: no rules, no parents


class Node:
    """One recorded value: the operation and parents that made it and what their rules need.

    A leaf (a parameter) is a node of the operation LEAF, which has no parents.  No node refers to a Tensor or to its
    own output's consumers, so a graph has no reference cycle and goes away with the last tensor.

    `made` and `edited` are moments of one clock.  A node is made after its parents, so backward walks
    in falling order of `made`; a parent edited after its child was made is an error (see walk.py)."""

    __slots__ = (
        "op", "parents", "residuals", "made", "edited", "shape", "dtype", "shares", "scope", "code", "offset", "extras"
    )  # fmt: skip
    op: Op
    parents: tuple[Node | None, ...] | None  # None once backward has released them
    residuals: tuple[Any, ...]  # for each rule the values that it asked for; of a joint rule one dict
    made: int
    edited: int  # 0: never
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    shares: bool  # does the value lie in the memory of an operand?  Then an edit of that one changes this one, too
    scope: str
    code: CodeType  # with `offset`: the user's line (see origin.py)
    offset: int
    extras: Extras | None

    @property
    def line(self) -> str:
        """The user's line that made this value: ``model.py:12: scores = q @ k.mT``."""
        return describe(self.code, self.offset)

    @property
    def name(self) -> str | None:
        """The name that the tensor was given by ``named``."""
        return None if self.extras is None else self.extras.name

    @property
    def inputs(self) -> list[tuple[str, Node | None]]:
        """(argument, node) for each differentiable argument; the node of a constant is None."""
        parents = self.parents or ()
        return list(zip(self.op.names_of(len(parents)), parents))

    @property
    def saved(self) -> dict[str, Any]:
        """What the rules asked for, by name; empty once it is released."""
        if self.op.joint is not None:
            return dict(self.residuals[0]) if self.residuals else {}
        return {
            name: value
            for need, values in zip(self.op.needs, self.residuals)
            for name, value in zip(need, values or ())
        }

    def __str__(self) -> str:
        """``matmul (model.py:12: scores = q @ k.mT)``, for messages."""
        return f"{'a leaf' if self.op is LEAF else self.op.name} ({self.line})"

    def __repr__(self) -> str:
        return f"Node({self.op.name}, shape {tuple(self.shape)}, {self.line})"


class Extras:
    """What few nodes have: a name, hooks, a kept gradient, which threads add to one at a time."""

    __slots__ = ("name", "hooks", "keeps_grad", "grad", "lock")

    def __init__(self) -> None:
        self.name: str | None = None
        self.hooks: list[Callable[[Any], Any]] = []
        self.keeps_grad = False
        self.grad: Any = None
        self.lock = Lock()


def extras_of(node: Node) -> Extras:
    """The extras of a node, made when they are first asked for."""
    if node.extras is None:
        node.extras = Extras()
    return node.extras


class Traced:
    """What operations see of a Tensor: the array, and the node that made it (None: a constant)."""

    __slots__ = ("_data", "_node", "_name", "_frozen", "__weakref__")
    _data: Any
    _node: Node | None
    _name: str | None
    _frozen: Node | None  # the node of a leaf while requires_grad is off


tick = itertools.count(1).__next__  # 1, 2, 3 ...: the clock, safe among threads


def record(
    op: Op,
    parents: tuple[Node | None, ...],
    residuals: tuple[Any, ...],
    operands: Sequence[Any],
    out: Any,
    mode: Mode,
    frame: Any,
) -> Node:
    """The node of a value that `op` has just made of the arrays `operands`, called from `frame`."""
    node = Node()
    node.op = op
    node.parents = parents
    node.residuals = residuals
    node.made = tick()
    node.edited = 0
    node.shape = out.shape
    node.dtype = out.dtype
    node.shares = out.base is not None and shares(out, operands)
    node.scope = mode.scope
    node.extras = None
    code = frame.f_code
    while is_inside[code.co_filename] and frame.f_back is not None:  # calling_line, written out
        frame = frame.f_back
        code = frame.f_code
    node.code = code
    node.offset = frame.f_lasti
    return node


def shares(out: Any, operands: Sequence[Any]) -> bool:
    """Is `out` a view of one of the operands?  (A view of a view has the same base: the array that owns the memory.)"""
    return any(x is out.base or getattr(x, "base", None) is out.base for x in operands if x is not out)


def leaf(data: Any, mode: Mode) -> Node:
    """A node for a tensor that the user made and wants gradients of."""
    node = record(LEAF, (), (), (), data, mode, sys._getframe(1))
    node.scope = ""
    extras_of(node).keeps_grad = True
    return node


def calling_line(frame: Any) -> tuple[Any, int]:
    """The user's line that is being run: code object and instruction offset of the nearest frame
    outside the engine.  Never the frame itself, which would keep its variables alive."""
    while is_inside[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti
