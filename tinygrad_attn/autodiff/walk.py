"""Backward: walk the graph from the loss to the leaves, each node once, handing gradients on.

    1. collect the nodes that the loss depends on, and sort them by when they were made;
    2. take the youngest: its consumers were made after it, so its gradient is complete;
    3. its rules turn that gradient into one contribution per parent;
    4. a parent adds up the contributions of all its consumers.

Nothing recurses, so a chain of 20,000 operations is as good as one of three.  ``backward``, ``grad`` and ``steps``
(backward.py) run this walk to its end; the probe reads the steps on the way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from typing import Any

from .arrays import module_of
from .graph import LEAF, Node, Op, Traced
from .mode import enable_grad
from .ops.elementwise import astype
from .ops.reduce import sum as sum_
from .ops.shape import reshape

NOTHING: frozenset[Node] = frozenset()


class Step:
    """One step of backward: `node` received `gradient` and handed `contributions` to its parents
    (None for a parent that wants none; empty at a leaf)."""

    __slots__ = ("node", "gradient", "contributions")

    def __init__(self, node: Node, gradient: Any, contributions: list[Any]) -> None:
        self.node, self.gradient, self.contributions = node, gradient, contributions

    def __repr__(self) -> str:
        count = len(self.contributions)
        many = "" if count == 1 else "s"
        return f"Step({self.node.op.name}, gradient {tuple(self.gradient.shape)}, {count} contribution{many})"


def walk(
    seeds: dict[Node, Any],
    retain: bool = False,
    create_graph: bool = False,
    until: frozenset[Node] = NOTHING,
    every: bool = True,
) -> Iterator[Step]:
    """Yield a Step for each node under `seeds` (node -> dL/d(its value)), consumers before parents.
    The walk ends at leaves and at the nodes of `until`.  every=False shows only nodes that somebody
    marked (leaves, hooks, names): 0.2 us less for each of the others.

    Unless `retain`, what a node kept is released as soon as its contributions are handed on."""
    order = in_order(seeds, until)
    pending = dict(seeds)  # gradient received so far
    ours: set[Node] = set()  # nodes whose pending array was made here: safe to add to in place
    while order:
        node = order.pop()
        gradient = pending.pop(node, None)
        if node.parents is None:  # since this walk began: by a backward in a hook, or in another thread
            raise _released(node)
        if gradient is not None:
            extras, contributions = node.extras, []
            if extras is not None and extras.hooks and node not in until:
                gradient = _hooked(gradient, extras.hooks, node)
            if node.parents and node not in until:
                contributions = _hand_on(node, gradient, pending, ours, create_graph)
            if every or extras is not None:
                step = Step(node, gradient, contributions)
                del gradient, contributions  # the consumer decides how long they live
                yield step
                del step
        if not retain and node.parents and node not in until:
            node.parents, node.residuals = None, ()


def gradients_at(
    seeds: dict[Node, Any],
    wanted: Collection[Node],
    retain: bool = False,
    create_graph: bool = False,
    until: frozenset[Node] = NOTHING,
) -> dict[Node, Any]:
    """dL/d(value) of each of the `wanted` nodes that the seeds depend on; the whole graph is walked."""
    return {step.node: step.gradient for step in walk(seeds, retain, create_graph, until) if step.node in wanted}


def _hand_on(node: Node, gradient: Any, pending: dict[Node, Any], ours: set[Node], create_graph: bool) -> list[Any]:
    """The rules of `node` make one contribution for each parent, in the parent's shape and dtype; it is added to what
    the parent has received so far."""
    parents = node.parents or ()
    try:
        if create_graph:
            with enable_grad():
                parts = _recorded(node, node.op, gradient)
        else:
            parts = node.op.pull(gradient, node.residuals, parents)
        for i, parent in enumerate(parents):
            part = parts[i]
            if part is None or parent is None:
                parts[i] = None
                continue
            if part.shape != parent.shape or part.dtype is not parent.dtype or not parent.shape:
                parts[i] = part = _fitted(part, parent, node.op, gradient)
            if parent in pending:
                _add(pending, ours, parent, part, create_graph)
            else:
                pending[parent] = part
        return parts
    except Exception as error:
        error.add_note(f"in the backward rule of {node}")
        raise


def _add(pending: dict[Node, Any], ours: set[Node], parent: Node, part: Any, create_graph: bool) -> None:
    """One more contribution to `parent`."""
    so_far = pending[parent]
    if parent in ours:
        so_far += part
    elif create_graph:
        with enable_grad():
            pending[parent] = so_far + part
    elif part.shape:  # the first one may be somebody else's array: make our own sum
        pending[parent] = so_far + part
        ours.add(parent)
    else:  # of two 0-d arrays NumPy makes a scalar
        pending[parent] = module_of(so_far).asarray(so_far + part)


def _hooked(gradient: Any, hooks: list[Callable[[Any], Any]], node: Node) -> Any:
    """`gradient` as the hooks of `node` leave it; under create_graph what they do is recorded too."""
    try:
        with enable_grad() if isinstance(gradient, Traced) else nullcontext():
            for hook in tuple(hooks):  # a hook may remove itself
                gradient = hook(gradient)
    except Exception as error:
        error.add_note(f"in a hook of {node}")
        raise
    return gradient


# ---------------------------------------------------------------------------- in which order

_when_made = operator.attrgetter("made")


def in_order(seeds: Collection[Node], until: frozenset[Node] = NOTHING) -> list[Node]:
    """The nodes that the seeds depend on, in the order in which they were made, so that the last one
    is always free to go next.  (Counting the consumers of each node instead took 0.3 us more per node.)
    Every node is checked here, before anything is computed: an error leaves all gradients as they were.

    Errors: RuntimeError where the graph is released, or a value was edited that a rule needs."""
    found = set(seeds)
    order = list(seeds)
    for node in order:  # grows while it is read
        if node in until:
            continue
        parents = node.parents
        if parents is None:
            raise _released(node)
        if node.edited and any("out" in need for need in node.op.needs):
            raise _edited(node, node)
        for parent in parents:
            if parent is not None:
                if parent.edited > node.made:
                    _check_edit(node, parent)
                if parent not in found:
                    found.add(parent)
                    order.append(parent)
    order.sort(key=_when_made)
    return order


def _released(node: Node) -> RuntimeError:
    return RuntimeError(
        f"backward a second time through {node}: its saved arrays were released by the first; "
        f"call the first one with retain_graph=True, or run the forward pass again"
    )


def _check_edit(node: Node, parent: Node) -> None:
    """`parent` was edited after `node` was made: an error where a rule of `node` needs its value."""
    op = node.op
    parents = node.parents or ()
    names = {op.arguments[0 if op.variadic else op.traced[i]] for i, p in enumerate(parents) if p is parent}
    needed = any(names & set(need) for need, p in zip(op.needs, parents) if p is not None or op.joint)
    if needed or node.shares or op.reference is not None:
        raise _edited(node, parent)


def _edited(node: Node, edited: Node) -> RuntimeError:
    name = edited.name
    if name is None and edited is node:
        name = "its own output"
    elif name is None:
        name = f"the leaf made in {edited.line}," if edited.op is LEAF else f"the output of {edited}"
    return RuntimeError(
        f"data edited between forward and backward: {name} of shape {tuple(edited.shape)} was changed after "
        f"{node}, whose gradient needs the old value; edit after backward(), or work on a copy"
    )


# ---------------------------------------------------------------------------- gradients of gradients


def _recorded(node: Node, op: Op, gradient: Traced) -> list[Any]:
    """The same rules on tensors, so that they record themselves: saved arrays become tensors again."""
    parents = node.parents or ()

    def tensor(array: Any, source: Node | None) -> Any:
        if not hasattr(array, "dtype"):
            return array
        made = object.__new__(type(gradient))
        made._data, made._node = array, source
        return made

    sources = {} if op.variadic else dict(node.inputs)

    def rebuilt(name: str, value: Any) -> Any:
        if name == "out":
            return tensor(value, node)
        if op.variadic and name == op.arguments[0]:
            return [tensor(array, parent) for array, parent in zip(value, parents)]
        return tensor(value, sources[name]) if name in sources else value

    if op.joint is None:
        return [
            None if parent is None else rule(gradient, *[rebuilt(n, v) for n, v in zip(need, values)])
            for rule, need, values, parent in zip(op.rules, op.needs, node.residuals, parents)
        ]
    saved = {name: rebuilt(name, value) for name, value in node.saved.items()}
    return op.pull(gradient, (saved,), parents) if op.reference is None else _through_reference(op, saved, gradient)


def _through_reference(op: Op, saved: dict[str, Any], gradient: Traced) -> list[Any]:
    """Backward of a fused operation as backward of its reference, recorded."""
    assert op.reference is not None
    values = {name: saved[name] for name in op.arguments}
    nodes = [x._node if isinstance(x, Traced) else None for x in (values[op.arguments[i]] for i in op.traced)]
    out = op.reference(**values)
    if out._node is None:
        return [None] * len(nodes)
    ends = frozenset(node for node in nodes if node is not None)
    found = gradients_at({out._node: gradient}, ends, retain=True, create_graph=True, until=ends)
    return [None if node is None else found.get(node) for node in nodes]


# ---------------------------------------------------------------------------- broadcasting, undone


def _fitted(value: Any, parent: Node, op: Op, gradient: Any) -> Any:
    """A rule's result with the parent's shape and dtype: broadcast axes are summed out."""
    if isinstance(gradient, Traced):
        with enable_grad():
            return _fit(value, parent, op)
    if type(value) is not type(gradient):
        value = module_of(gradient).asarray(value)  # NumPy's 0-d arithmetic gives scalars
    value = _fit(value, parent, op)
    return value if type(value) is type(gradient) else module_of(gradient).asarray(value)


def _fit(value: Any, parent: Node, op: Op) -> Any:
    if value.shape != parent.shape:
        if not op.broadcasts:
            raise ValueError(
                f"{op.name}: a rule gave a gradient of shape {tuple(value.shape)} "
                f"for an argument of shape {tuple(parent.shape)}"
            )
        value = sum_to(value, parent.shape)
    return astype(value, parent.dtype) if value.dtype != parent.dtype else value


def sum_to(value: Any, shape: tuple[int, ...]) -> Any:
    """Sum `value` over the axes along which `shape` was broadcast: the transpose of broadcasting.

    >>> import numpy as np
    >>> sum_to(np.ones((2, 3)), (3,))
    array([2., 2., 2.])
    """
    extra = value.ndim - len(shape)
    stretched = tuple(extra + i for i, n in enumerate(shape) if n == 1 and value.shape[extra + i] != 1)
    axes = tuple(range(extra)) + stretched
    return reshape(sum_(value, axes), shape) if axes else reshape(value, shape)
