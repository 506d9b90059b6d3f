"""Nodes of a graph: their order, the rules of one on any gradient, its local Jacobian.

Nothing here runs hooks, fills ``.grad`` or releases anything: the graph is as before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import Node, Traced
from ..autodiff.walk import sum_to


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
    """All nodes that `root` depends on, consumers before parents, `root` first.  (Unlike ``in_order`` of the walk it
    takes a graph whose data was edited.)

    Errors: RuntimeError when backward has released the graph already."""
    found, nodes = {root}, [root]
    for node in nodes:  # grows while it is read
        if node.parents is None:
            raise RuntimeError(
                f"{who}: too late, the graph is released: backward() went through {node} already; call {who} "
                f"before backward(), or backward(retain_graph=True)"
            )
        for parent in node.parents:
            if parent is not None and parent not in found:
                found.add(parent)
                nodes.append(parent)
    return sorted(nodes, key=lambda node: -node.made)  # a node is made after its parents


def between(order: list[Node], node: Node) -> set[Node]:
    """The nodes on a way from `node` to the first one of `order`, both included."""
    found = {node}
    for other in reversed(order):
        if not found.isdisjoint(other.parents or ()):
            found.add(other)
    return found


def pull(node: Node, gradient: Any, position: int | None = None, residuals: Any = None) -> list[Any]:
    """What the node's rules make of `gradient`, one contribution per parent (None where none flows), in the
    shape of the parent and the dtype that the rule gives.  position: only that parent's."""
    parents = tuple(parent if position in (None, i) else None for i, (_, parent) in enumerate(node.inputs))
    residuals = node.residuals if residuals is None else residuals
    if node.op.joint is None:
        residuals = tuple(None if parent is None else values for values, parent in zip(residuals, parents))
    found = node.op.pull(gradient, residuals, parents) if parents else []
    array = module_of(gradient).asarray
    return [None if g is None or p is None else sum_to(array(g), p.shape) for g, p in zip(found, parents)]


def jacobian(node: Node, position: int) -> np.ndarray:
    """The local Jacobian d(out)/d(parent) as a matrix (out entries, parent entries): one pull per row."""
    parent = node.inputs[position][1]
    assert parent is not None
    size, width = math.prod(node.shape), math.prod(parent.shape)
    units = _module(node).eye(size, dtype=node.dtype)
    rows = [pull(node, unit.reshape(node.shape), position)[position] for unit in units]
    flat = [np.zeros(width) if row is None else to_host(row).reshape(-1) for row in rows]
    return np.array(flat, parent.dtype).reshape(size, width)


def slope_of(node: Node, parent: Node, g: np.ndarray | None = None) -> np.ndarray:
    """`g` (ones) through the rules of `node`: the derivative of each entry, where it depends on one entry alone."""
    position = [one for _, one in node.inputs].index(parent)
    with np.errstate(all="ignore"):
        part = pull(node, _module(node).asarray(np.ones(node.shape) if g is None else g, node.dtype), position)[
            position
        ]
    return np.zeros(parent.shape) if part is None else to_host(part).astype(np.float64)


def _module(node: Node) -> Any:
    """NumPy or CuPy, as what the rules of `node` saved."""
    arrays = [value for value in node.saved.values() if hasattr(value, "dtype") and value.ndim]
    return module_of(arrays[0]) if arrays else np
