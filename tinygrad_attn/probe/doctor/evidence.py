"""Evidence: everything that the doctor's checks look at, gathered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...autodiff.arrays import module_of, to_host
from ...autodiff.graph import LEAF, Node
from ...autodiff.tensor import Tensor
from ...autodiff.walk import Step, walk
from ...nn.module import Module
from ..nodes import ordered
from .events import Event


@dataclass
class Evidence:
    """What the user gave:
    loss; params by name; events of the forward pass, or None where only the loss was given; optimizers.

    What was found out, by node: order (the loss first), steps of backward (until its failure, if it has one) and their
    gradients, values as far as they are known, consumers with the argument that they take it for.
    leaves: the parameters that can learn, (name, node)."""

    loss: Tensor
    params: list[tuple[str, Any]]
    events: list[Event] | None
    is_module: bool = False
    optimizers: list[Any] = field(default_factory=list)
    failure: Exception | None = None

    def __post_init__(self) -> None:
        """Walk backward once, keeping all; the graph and every .grad stay as they are."""
        root = self.loss._node
        self.tensors = [(name, p) for name, p in self.params if isinstance(p, Tensor)]
        nodes = [(name, p._node) for name, p in self.tensors if p._node is not None]
        self.leaves = [(name, node) for name, node in nodes if node.op is LEAF]
        self.names = {node: name for name, node in reversed(nodes)}
        self.order = [] if root is None else ordered(root, "doctor")
        self.steps: list[Step] = []
        self.values: dict[Node, np.ndarray] = {}
        self.consumers: dict[Node, list[tuple[Node, str]]] = {}
        for node in self.order:
            self._look_at(node)
        for event in self.events or ():
            if event.taped:
                self.values[event.out._node] = to_host(event.out._data)
        try:
            with np.errstate(all="ignore"):
                seeds = {} if root is None else {root: module_of(self.loss._data).ones(root.shape, dtype=root.dtype)}
                self.steps.extend(walk(seeds, retain=True))
        except RuntimeError as error:
            self.failure = error
        self.gradients = {step.node: step.gradient for step in self.steps}

    def _look_at(self, node: Node) -> None:
        """Who consumes its inputs, and the arrays that it saved of them and of itself."""
        owners = {"out": node}
        for argument, parent in node.inputs:
            if parent is not None:
                self.consumers.setdefault(parent, []).append((node, argument))
                owners[argument] = parent
        for name, value in node.saved.items():
            if name in owners and hasattr(value, "dtype"):
                self.values[owners[name]] = to_host(value)

    def label(self, node: Node) -> str:
        """A name for messages: the parameter's, the given one, else the operation's."""
        leaf = f"a leaf of shape {node.shape}"
        return self.names.get(node) or node.name or (leaf if node.op is LEAF else node.op.name)


def named(params: Module | Mapping[str, Any] | Iterable[Any] | None) -> list[tuple[str, Any]]:
    """(name, tensor) of a Module, a dict, or a sequence."""
    if isinstance(params, Module):
        return list(params.named_parameters())
    if isinstance(params, Mapping):
        return list(params.items())
    return [(getattr(p, "name", None) or f"params[{i}]", p) for i, p in enumerate(params or ())]
