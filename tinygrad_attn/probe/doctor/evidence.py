"""Case: everything that the doctor's checks look at, gathered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...autodiff.arrays import module_of, to_host
from ...autodiff.graph import LEAF, Node
from ...autodiff.tensor import Tensor
from ...autodiff.walk import Step
from ...nn.module import Module
from ..local import argument_names, every_step, ordered
from ..trace import Event


@dataclass
class Case:
    """loss; params by name; steps of backward (gradients and contributions); events of the forward pass, or None
    where only the loss was given; values: arrays of nodes as far as they are known."""

    loss: Tensor
    params: list[tuple[str, Any]]
    events: list[Event] | None
    is_module: bool = False
    optimizers: list[Any] = field(default_factory=list)
    order: list[Node] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    failure: Exception | None = None
    values: dict[Node, np.ndarray] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    gradients: dict[Node, Any] = field(default_factory=dict)
    consumers: dict[Node, list[tuple[Node, str]]] = field(default_factory=dict)

    def run(self) -> Case:
        """Walk backward once, keeping all; the graph and every .grad stay as they are."""
        root = self.loss._node
        self.names = {
            p._node: name for name, p in reversed(self.params) if isinstance(p, Tensor) and p._node is not None
        }
        if root is None:
            return self
        self.order = ordered(root, "doctor")
        for node in self.order:
            for argument, parent in zip(argument_names(node), node.parents or ()):
                if parent is not None:
                    self.consumers.setdefault(parent, []).append((node, argument))
        self._know_values()
        try:
            with np.errstate(all="ignore"):
                for step in every_step(root, module_of(self.loss._data).ones(root.shape, dtype=root.dtype)):
                    self.steps.append(step)
                    self.gradients[step.node] = step.gradient
        except RuntimeError as error:
            self.failure = error
        return self

    def _know_values(self) -> None:
        """A node's array: from the trace, else from what it or its consumers kept."""
        for node in self.order:
            op = node.op
            for need, kept in zip(op.needs if op else (), node.residuals):
                pairs = kept.items() if isinstance(kept, dict) else zip(need, kept or ())
                sources = {} if op is None or op.variadic else dict(zip(argument_names(node), node.parents or ()))
                for name, value in pairs:
                    owner = node if name == "out" else sources.get(name)
                    if owner is not None and hasattr(value, "dtype"):
                        self.values[owner] = to_host(value)
        for event in self.events or ():
            if event.taped:
                self.values[event.out._node] = to_host(event.out._data)

    def label(self, node: Node) -> str:
        """A name for messages: the parameter's, the given one, else the operation's."""
        return (
            self.names.get(node) or node.name or (f"a leaf of shape {node.shape}" if node.op is LEAF else node.op.name)
        )


def named(params: Module | Mapping[str, Any] | Iterable[Any] | None) -> list[tuple[str, Any]]:
    """(name, tensor) of a Module, a dict, or a sequence."""
    if params is None:
        return []
    if isinstance(params, Module):
        return list(params.named_parameters())
    if isinstance(params, Mapping):
        return list(params.items())
    return [(getattr(p, "name", None) or f"params[{i}]", p) for i, p in enumerate(params)]
