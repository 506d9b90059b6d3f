"""One node at a time: its rules on any gradient, its local Jacobian, and the order of a graph.

Nothing here runs hooks, fills ``.grad`` or releases anything: the graph is as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import Node, Traced
from ..autodiff.walk import Step, sum_to, walk


def node_of(loss: Any, who: str) -> Node:
    """The node of a tensor.  Errors: TypeError for something else, RuntimeError for one without a graph."""
    if not isinstance(loss, Traced):
        raise TypeError(f"{who}: expected a Tensor, got {type(loss).__name__}")
    if loss._node is None:
        raise RuntimeError(
            f"{who}: this tensor has no graph: nothing it was made from has requires_grad=True, or it was made under "
            f"no_grad, or detached"
        )
    return loss._node


def ordered(root: Node, who: str) -> list[Node]:
    """All nodes that `root` depends on, consumers before parents, `root` first.

    Errors: RuntimeError when backward has released the graph already."""
    found, stack = {root}, [root]
    while stack:
        node = stack.pop()
        if node.parents is None:
            raise RuntimeError(
                f"{who}: too late, the graph is released: backward() went through {made(node)} already; call {who} "
                f"before backward(), or backward(retain_graph=True)"
            )
        new = [parent for parent in node.parents if parent is not None and parent not in found]
        found.update(new)
        stack += new
    return sorted(found, key=lambda node: -node.made)  # a node is made after its parents


def between(order: list[Node], node: Node) -> set[Node]:
    """The nodes on a way from `node` to the first one of `order`, both included."""
    found = {node}
    for other in reversed(order):
        if any(parent in found for parent in other.parents or ()):
            found.add(other)
    return found


def every_step(root: Node, seed: Any) -> Iterator[Step]:
    """The steps of backward from `root`, each an object of its own (``walk`` fills one anew)."""
    return walk({root: seed}, retain=True)


def kept_by_name(node: Node) -> dict[str, Any]:
    """What the rules asked to keep, each name once."""
    return node.saved


def pull(node: Node, gradient: Any, position: int | None = None, kept: Any = None) -> list[Any]:
    """What the node's rules make of `gradient`, one contribution per parent (None where none flows), in the
    shape of the parent and the dtype that the rule gives.  position: only that parent's."""
    op, parents, kept = node.op, node.parents, node.residuals if kept is None else kept
    if parents is None:
        return []
    wanted = tuple(parent is not None and position in (None, i) for i, parent in enumerate(parents))
    if op.joint is None:
        kept = tuple(values if want else None for values, want in zip(kept, wanted))
    found = op.pull(gradient, kept, tuple(parent if want else None for parent, want in zip(parents, wanted)))
    module = module_of(gradient)
    return [
        None if value is None or not want or parent is None else sum_to(module.asarray(value), parent.shape)
        for value, want, parent in zip(found, wanted, parents)
    ]


def argument_names(node: Node) -> list[str]:
    """The name of each parent in the operation: ``["x", "y"]``, ``["tensors[0]", "tensors[1]"]``."""
    return [name for name, _ in node.inputs]


def jacobian(node: Node, position: int) -> np.ndarray:
    """The local Jacobian d(out)/d(parent) as a matrix (out entries, parent entries): one pull per row."""
    assert node.parents is not None
    parent = node.parents[position]
    assert parent is not None
    size, width = int(np.prod(node.shape)), int(np.prod(parent.shape))
    rows = np.zeros((size, width), parent.dtype)
    like = array_like(node)
    for i in range(size):
        unit = like.zeros(size, dtype=node.dtype)
        unit[i] = 1.0
        contribution = pull(node, unit.reshape(node.shape), position)[position]
        if contribution is not None:
            rows[i] = to_host(contribution).reshape(-1)
    return rows


def array_like(node: Node) -> Any:
    """The array module that the node computes on, read off what it kept (NumPy when it kept no array)."""
    for part in node.residuals:
        for value in () if part is None else part.values() if isinstance(part, dict) else part:
            if hasattr(value, "dtype") and value.ndim:
                return module_of(value)
    return np


def called(node: Node) -> str | None:
    """The name that the tensor of this node was given."""
    return node.name


def made(node: Node) -> str:
    """``matmul (model.py:12: scores = q @ k.mT)``"""
    return str(node)
