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

import sys
from collections.abc import Callable, Sequence
from typing import Any

from .mode import current
from .where import is_inside


class Traced:
    """What operations see of a Tensor: the array, and the node that made it (None: a constant)."""

    __slots__ = ("_data", "_node", "_name", "__weakref__")
    _data: Any
    _node: Node | None
    _name: str | None


class Node:
    """One recorded value: the operation and parents that made it and what their rules kept.

    A leaf (a parameter) is a node without an operation.  No node refers to a Tensor or to its own
    output's consumers, so a graph has no reference cycle and goes away with the last tensor."""

    __slots__ = ("op", "parents", "kept", "versions", "shape", "dtype", "scope", "code", "offset", "version", "extras")
    op: Op | None
    parents: tuple[Node | None, ...] | None  # None once backward has released them
    kept: tuple[Any, ...]
    versions: tuple[int, ...]  # of the parents when recorded: an edit since then is an error
    extras: Extras | None


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
    node.op, node.parents, node.kept, node.versions = None, (), (), ()
    node.shape, node.dtype, node.scope, node.version, node.extras = data.shape, data.dtype, "", 0, Extras()
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
    """

    def __init__(self, name: str, forward: Callable[..., Any], arguments: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self.name, self.forward, self.arguments, self.defaults = name, forward, arguments, defaults
        self.traced: tuple[int, ...] = ()
        self.rules: tuple[Callable[..., Any], ...] = ()
        self.needs: tuple[tuple[str, ...], ...] = ()
        self.joint: Callable[..., Any] | None = None
        self.reference: Callable[..., Any] | None = None
        self.broadcasts = False  # gradients are summed back to each argument's shape
        self.variadic = False  # the first argument is a sequence of tensors
        self.saves = False  # forward gives (out, saved)
        self.promotes = True  # arguments are brought to one dtype first

    def __repr__(self) -> str:
        return f"Op({self.name})"


def keep(op: Op, need: Sequence[str], values: Sequence[Any], out: Any, saved: Any) -> tuple[Any, ...]:
    """What one rule asked for, taken from the call that just ran."""
    kept = []
    for name in need:
        if name == "out":
            kept.append(out)
        elif name == "saved":
            kept.append(saved)
        elif name in op.arguments:
            kept.append(values[op.arguments.index(name)])
        else:  # "x_shape": checked when the op was defined
            kept.append(getattr(values[op.arguments.index(name[:-6])], "shape", ()))
    return tuple(kept)


def record(op: Op, out: Any, parents: tuple[Node | None, ...], kept: tuple[Any, ...], frame: Any) -> Node:
    """The node of a value that `op` has just made."""
    node = Node()
    node.op, node.parents, node.kept = op, parents, kept
    node.versions = tuple([0 if parent is None else parent.version for parent in parents])
    node.shape, node.dtype, node.scope, node.version, node.extras = out.shape, out.dtype, current().scope, 0, None
    node.code, node.offset = calling_line(frame)
    return node
