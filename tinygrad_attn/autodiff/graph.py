"""The graph: what an operation is, and what is remembered when one runs on tensors.

    x ──┐                 Node(mul)  parents: node of x, node of y
        mul ──> out                  kept:    what each rule asked for, and nothing else
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

import itertools
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from .mode import Mode
from .origin import describe, is_inside


class Traced:
    """What operations see of a Tensor: the array, and the node that made it (None: a constant)."""

    __slots__ = ("_data", "_node", "_name", "__weakref__")
    _data: Any
    _node: Node | None
    _name: str | None


class Node:
    """One recorded value: the operation and parents that made it and what their rules kept.

    A leaf (a parameter) is a node without an operation.  No node refers to a Tensor or to its own
    output's consumers, so a graph has no reference cycle and goes away with the last tensor.

    `made` and `edited` are moments of one clock.  A node is made after its parents, so backward walks
    in falling order of `made`; a parent edited after its child was made is an error (see walk.py)."""

    __slots__ = ("op", "parents", "kept", "made", "edited", "shape", "dtype", "scope", "code", "offset", "extras")
    op: Op | None
    parents: tuple[Node | None, ...] | None  # None once backward has released them
    kept: tuple[Any, ...]  # for each rule the values that it asked for
    made: int
    edited: int  # 0: never
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scope: str
    code: CodeType  # with `offset`: the user's line (see where.py)
    offset: int
    extras: Extras | None

    def __repr__(self) -> str:
        return f"Node({self.op.name if self.op else 'leaf'}, shape {tuple(self.shape)}, {describe(self.code, self.offset)})"


tick = itertools.count(1).__next__  # 1, 2, 3 ...: the clock, safe among threads


class Extras:
    """What few nodes have: a name, hooks, a kept gradient."""

    __slots__ = ("name", "hooks", "keeps_grad", "grad")

    def __init__(self) -> None:
        self.name: str | None = None
        self.hooks: list[Callable[[Any], Any]] = []
        self.keeps_grad = False
        self.grad: Any = None


def extras_of(node: Node) -> Extras:
    if node.extras is None:
        node.extras = Extras()
    return node.extras


def leaf(data: Any) -> Node:
    """A node for a tensor that the user made and wants gradients of."""
    node = Node()
    node.op, node.parents, node.kept, node.made, node.edited = None, (), (), tick(), 0
    node.shape, node.dtype, node.scope, node.extras = data.shape, data.dtype, "", Extras()
    node.extras.keeps_grad = True
    node.code, node.offset = calling_line(sys._getframe(1))
    return node


def calling_line(frame: Any) -> tuple[Any, int]:
    """The user's line that is being run: code object and instruction offset of the nearest frame
    outside the engine.  Never the frame itself, which would keep its variables alive."""
    while is_inside[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


class Op:
    """An operation as data: `forward`, and for each differentiable argument a rule.

    arguments   names of the forward's parameters, in order
    traced      positions of those that have a rule
    rules       one per traced argument, or () where a `joint` rule gives all gradients at once
    needs       for each rule, the names it asked for
    pull        all rules as one function of (g, kept, parents): a list with one gradient per parent
    """

    def __init__(
        self, name: str, forward: Callable[..., Any], arguments: tuple[str, ...], defaults: dict[str, Any]
    ) -> None:
        self.name, self.forward, self.arguments, self.defaults = name, forward, arguments, defaults
        self.traced: tuple[int, ...] = ()
        self.rules: tuple[Callable[..., Any], ...] = ()
        self.needs: tuple[tuple[str, ...], ...] = ()
        self.joint: Callable[..., Any] | None = None
        self.pull: Callable[[Any, tuple[Any, ...], tuple[Node | None, ...]], list[Any]]
        self.reference: Callable[..., Any] | None = None
        self.broadcasts = False  # gradients are summed back to each argument's shape
        self.variadic = False  # the first argument is a sequence of tensors
        self.saves = False  # forward gives (out, saved)
        self.views = False  # the result shares memory with the argument
        self.casts = "dtype" in arguments  # the caller says the result's dtype, which otherwise never widens

    def __repr__(self) -> str:
        return f"Op({self.name})"


def record(
    op: Op, parents: tuple[Node | None, ...], kept: tuple[Any, ...], out: Any, dtype: Any, mode: Mode, frame: Any
) -> Node:
    """The node of a value that `op` has just made, called from `frame`."""
    node = Node()
    node.op = op
    node.parents = parents
    node.kept = kept
    node.made = tick()
    node.edited = 0
    node.shape = out.shape
    node.dtype = dtype
    node.scope = mode.scope
    node.extras = None
    code = frame.f_code
    while is_inside[code.co_filename] and frame.f_back is not None:  # calling_line, written out
        frame = frame.f_back
        code = frame.f_code
    node.code = code
    node.offset = frame.f_lasti
    return node
