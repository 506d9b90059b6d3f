"""Backward: walk the graph from the loss to the leaves, each node once, handing gradients on.

    1. collect the nodes that the loss depends on, and sort them by when they were made;
    2. take the youngest: its consumers were made after it, so its gradient is complete;
    3. its rules turn that gradient into one contribution per parent.

Nothing recurses, so a chain of 20,000 operations is as good as one of three.  ``backward`` and
``grad`` exhaust the walk; ``steps`` shows it one node at a time; the probe looks on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from .arrays import module_of
from .graph import Node, Op, Traced
from .mode import enable_grad
from .ops.elementwise import astype
from .ops.reduce import sum as sum_
from .ops.shape import reshape
from .origin import describe


class Step:
    """One step of backward: `node` received `gradient` and handed `contributions` to its parents
    (None for a parent that wants none; empty at a leaf)."""

    __slots__ = ("node", "gradient", "contributions")
    node: Node
    gradient: Any
    contributions: list[Any]

    def __repr__(self) -> str:
        name = self.node.op.name if self.node.op else "leaf"
        return f"Step({name}, gradient {tuple(self.gradient.shape)}, {len(self.contributions)} contributions)"


def walk(
    seeds: dict[Node, Any],
    retain: bool = False,
    create_graph: bool = False,
    until: frozenset[Node] = frozenset(),
    every: bool = True,
) -> Iterator[Step]:
    """Yield a Step for each node under `seeds` (node -> dL/d(its value)), consumers before parents.
    The walk ends at leaves and at the nodes of `until`.  every=False shows only nodes that somebody
    marked (leaves, hooks, names): 0.2 us less for each of the others.

    One Step object is filled anew each time, so that it never keeps a gradient alive.  Unless
    `retain`, what a node kept is released as soon as its contributions are handed on."""
    order = _in_order(seeds, until)
    pending = dict(seeds)  # gradient received so far
    ours: set[Node] = set()  # nodes whose pending array was made here: safe to add to in place
    step = Step()
    while order:
        node = order.pop()
        gradient = pending.pop(node, None)
        op, extras = node.op, node.extras
        if node in until:
            if gradient is not None:
                step.node, step.gradient, step.contributions = node, gradient, []
                yield step
            continue
        if gradient is not None:
            if extras is not None and extras.hooks:
                gradient = _hooked(gradient, extras.hooks, node)
            contributions: list[Any] = []
            if op is not None:
                parents = node.parents or ()
                try:
                    if create_graph:
                        with enable_grad():
                            contributions = _recorded(node, op, gradient)
                    else:
                        contributions = op.pull(gradient, node.kept, parents)
                    for i, parent in enumerate(parents):
                        contribution = contributions[i]
                        if contribution is None or parent is None:
                            contributions[i] = None
                            continue
                        shape = parent.shape
                        if contribution.shape != shape or contribution.dtype is not parent.dtype or not shape:
                            contributions[i] = contribution = _fitted(contribution, parent, node, gradient)
                        so_far = pending.get(parent)
                        if so_far is None:
                            pending[parent] = contribution
                        elif parent in ours:
                            so_far += contribution
                        elif create_graph:
                            with enable_grad():
                                pending[parent] = so_far + contribution
                        elif shape:  # the first one may be somebody else's array: make our own sum
                            pending[parent] = so_far + contribution
                            ours.add(parent)
                        else:  # of two 0-d arrays NumPy makes a scalar
                            pending[parent] = module_of(so_far).asarray(so_far + contribution)
                except Exception as error:
                    error.add_note(f"in the backward rule of {made_by(node)}")
                    raise
            if every or extras is not None:
                step.node, step.gradient, step.contributions = node, gradient, contributions
                del gradient, contributions
                yield step
                del step.gradient, step.contributions
        if not retain and op is not None:
            node.parents, node.kept = None, ()


def _hooked(gradient: Any, hooks: list[Callable[[Any], Any]], node: Node) -> Any:
    """`gradient` as the hooks of `node` leave it; under create_graph what they do is recorded too."""
    try:
        with enable_grad() if isinstance(gradient, Traced) else nullcontext():
            for hook in hooks:
                gradient = hook(gradient)
    except Exception as error:
        error.add_note(f"in a hook of {made_by(node)}")
        raise
    return gradient


_when_made = operator.attrgetter("made")


def _in_order(seeds: dict[Node, Any], until: frozenset[Node]) -> list[Node]:
    """The nodes that the seeds depend on, in the order in which they were made, so that the last one
    is always free to go next.  (Counting the consumers of each node instead took 0.3 us more per node.)
    Every node is checked here, before anything is computed: an error leaves all gradients as they were."""
    found = set(seeds)
    order = list(seeds)
    for node in order:  # grows while it is read
        if node in until:
            continue
        parents = node.parents
        if parents is None:
            raise RuntimeError(
                f"backward a second time through {made_by(node)}: its saved arrays were released by the first; "
                f"call the first one with retain_graph=True, or run the forward pass again"
            )
        made = node.made
        if node.edited and node.op is not None and any("out" in need for need in node.op.needs):
            raise _edited(node, node)
        for parent in parents:
            if parent is not None:
                if parent.edited > made:
                    _check_edit(node, parent)
                if parent not in found:
                    found.add(parent)
                    order.append(parent)
    order.sort(key=_when_made)
    return order


def _check_edit(node: Node, parent: Node) -> None:
    """`parent` was edited after `node` was made: an error where a rule of `node` kept its value."""
    op = node.op
    assert op is not None and node.parents is not None
    names = {op.arguments[0 if op.variadic else op.traced[i]] for i, p in enumerate(node.parents) if p is parent}
    kept = any(names & set(need) for need, p in zip(op.needs, node.parents) if p is not None or op.joint)
    if kept or op.views or op.reference is not None:
        raise _edited(node, parent)


def _edited(node: Node, edited: Node) -> RuntimeError:
    if edited.extras is not None and edited.extras.name:
        name = edited.extras.name
    elif edited is node:
        name = "its own output"
    else:
        name = (
            f"the output of {made_by(edited)}"
            if edited.op
            else f"the leaf made in {describe(edited.code, edited.offset)},"
        )
    return RuntimeError(
        f"data edited between forward and backward: {name} of shape {tuple(edited.shape)} was changed after "
        f"{made_by(node)}, whose gradient needs the old value; edit after backward(), or work on a copy"
    )


def made_by(node: Node) -> str:
    return f"{node.op.name if node.op else 'a leaf'} ({describe(node.code, node.offset)})"


def _recorded(node: Node, op: Op, gradient: Traced) -> list[Any]:
    """The same rules on tensors, so that they record themselves: kept arrays become tensors again."""
    parents = node.parents
    assert parents is not None

    def tensor(array: Any, source: Node | None) -> Any:
        if not hasattr(array, "dtype"):
            return array
        made = object.__new__(type(gradient))
        made._data, made._node = array, source
        return made

    sources = {} if op.variadic else {op.arguments[i]: parent for i, parent in zip(op.traced, parents)}

    def rebuilt(name: str, value: Any) -> Any:
        if name == "out":
            return tensor(value, node)
        if op.variadic and name == op.arguments[0]:
            return [tensor(array, parent) for array, parent in zip(value, parents)]
        return tensor(value, sources[name]) if name in sources else value

    if op.reference is not None and op.joint is not None:
        values = {name: rebuilt(name, node.kept[0][name]) for name in op.arguments}
        inputs = [values[op.arguments[i]] for i in op.traced]
        return _through_reference(op, values, inputs, gradient)
    if op.joint is not None:
        return op.pull(gradient, ({n: rebuilt(n, v) for n, v in node.kept[0].items()},), parents)
    return [
        None if parent is None else rule(gradient, *[rebuilt(n, v) for n, v in zip(need, values)])
        for rule, need, values, parent in zip(op.rules, op.needs, node.kept, parents)
    ]


def _through_reference(op: Op, values: dict[str, Any], inputs: list[Any], gradient: Traced) -> list[Any]:
    """Backward of a fused operation as backward of its reference, recorded."""
    assert op.reference is not None
    out = op.reference(**values)
    found: list[Any] = [None] * len(inputs)
    place = {x._node: i for i, x in enumerate(inputs) if isinstance(x, Traced) and x._node is not None}
    if out._node is not None:
        for step in walk({out._node: gradient}, retain=True, create_graph=True, until=frozenset(place)):
            if step.node in place:
                found[place[step.node]] = step.gradient
    return found


def _fitted(value: Any, parent: Node, node: Node, gradient: Any) -> Any:
    """A rule's result with the parent's shape and dtype: broadcast axes are summed out."""
    op = node.op
    assert op is not None
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
