"""stepper: walk backward through a graph node by node, forth and back, and look at everything on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import LEAF, Node
from ..autodiff.tensor import Tensor
from ..autodiff.walk import walk
from ..nn.module import Module
from ..show.table import Table
from .differences import directional_check
from .nodes import node_of, ordered
from .rules import sources
from .stepper_page import notebook_frame, stepper_page
from .stepper_terminal import run
from .stepview import Share, StepView, local_jacobian, saved_by


class Stepper:
    """``s = stepper(loss)``; ``print(s)`` shows it; ``s.next()``, ``s.back()``, ``s.go(5)``, ``s.find("scores")``;
    ``s.run()`` in a terminal; in a notebook it draws itself; ``s.to_html(path)`` writes one page.

    Nothing is released and no ``.grad`` is filled: backward can run afterwards."""

    def __init__(self, loss: Tensor, params: Module | Mapping[str, Tensor] | None = None, gradient: Any = None) -> None:
        root = node_of(loss, "stepper")
        if gradient is None and loss.size != 1:
            raise RuntimeError(
                f"stepper: a tensor of shape {loss.shape} needs its gradient: stepper(loss, gradient=...)"
            )
        given = np.ones(loss.shape) if gradient is None else gradient
        seed = Tensor(given, dtype=loss.dtype, device=loss.device)._data
        if tuple(seed.shape) != tuple(loss.shape):
            raise ValueError(f"stepper: expected a gradient of shape {loss.shape}, got {tuple(seed.shape)}")
        ordered(root, "stepper")  # an error where the graph is released
        self.params = dict(params.named_parameters()) if isinstance(params, Module) else dict(params or {})
        self._names = {tensor._node: name for name, tensor in self.params.items()}
        self._steps = list(walk({root: seed}, retain=True))
        self._place = {step.node: place for place, step in enumerate(self._steps)}
        self._sent: dict[Node, list[tuple[int, Any]]] = {}  # node -> (step, contribution) for each of its consumers
        for place, step in enumerate(self._steps):
            for (_, parent), contribution in zip(step.node.inputs, step.contributions):
                if parent is not None:
                    self._sent.setdefault(parent, []).append((place, contribution))
        self.place = 0

    # ------------------------------------------------------------------------ going about

    def __len__(self) -> int:
        """How many steps backward has."""
        return len(self._steps)

    def __iter__(self) -> Iterator[StepView]:
        return map(self.at, range(len(self)))

    def next(self) -> Stepper:
        """One step on; at the end it stays."""
        return self.go(min(self.place + 1, len(self) - 1))

    def back(self) -> Stepper:
        """One step back; at the loss it stays."""
        return self.go(max(self.place - 1, 0))

    def go(self, place: int) -> Stepper:
        """To step `place` (0 is the loss, -1 the last).  Errors: IndexError outside."""
        if not -len(self) <= place < len(self):
            raise IndexError(f"stepper: there is no step {place}; backward has {len(self)} steps")
        self.place = place % len(self)
        return self

    def find(self, text: str) -> Stepper:
        """To the next step whose name or operation holds `text`, else whose line does; after the last comes the first.

        Errors: KeyError when none does."""
        after = [(self.place + i) % len(self) for i in range(1, len(self) + 1)]
        for looked_at in (lambda n: f"{self._label(n)} {self._operation(n)} {n.scope}", lambda n: n.line):
            for place in after:
                if text in looked_at(self._steps[place].node):
                    return self.go(place)
        raise KeyError(f"stepper: no step has {text!r} in its name, operation or line")

    # ------------------------------------------------------------------------ looking

    @property
    def view(self) -> StepView:
        """Everything about the present step."""
        return self.at(self.place)

    def at(self, place: int) -> StepView:
        """Everything about step `place`, without going there."""
        step = self._steps[place]
        node = step.node
        return StepView(
            place,
            len(self),
            self._label(node),
            self._operation(node),
            node.scope,
            node.line,
            node.op.formulas(),
            sources(node.op),
            to_host(step.gradient),
            saved_by(node),
            [self._share(place, i) for i, (_, parent) in enumerate(node.inputs) if parent is not None],
        )

    def _share(self, place: int, position: int) -> Share:
        """What the parent at `position` gets in step `place`, summed in the order in which backward sums."""
        step = self._steps[place]
        argument, parent = step.node.inputs[position]
        contribution = step.contributions[position]
        assert parent is not None
        sent = [part for when, part in self._sent[parent] if when <= place]
        parts = [part for part in sent if part is not None]
        return Share(
            argument,
            self._label(parent),
            self._place.get(parent),
            None if contribution is None else to_host(contribution),
            to_host(module_of(parts[0]).asarray(sum(parts[1:], parts[0]))) if parts else None,
            len(sent),
            len(self._sent[parent]),
            None if contribution is None else local_jacobian(step.node, position, step.gradient),
        )

    def _label(self, node: Node) -> str:
        name = node.name or self._names.get(node)
        return name or (f"leaf {tuple(node.shape)}" if node.op is LEAF else node.op.name)

    def _operation(self, node: Node) -> str:
        return f"{node.op.name} {tuple(node.shape)}"

    def __str__(self) -> str:
        return str(self.view)

    def __repr__(self) -> str:
        return f"Stepper(step {self.place + 1} of {len(self)}, {self._label(self._steps[self.place].node)})"

    # ------------------------------------------------------------------------ showing

    def run(self) -> None:
        """In a terminal: n or Enter: on; p: back; a number: go there; /text: find; h: write a page; q: leave."""
        run(self)

    def to_html(self, path: str | Path) -> None:
        """One page with every step, which opens from disk."""
        Path(path).write_text(stepper_page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        return notebook_frame(self)

    # ------------------------------------------------------------------------ checking

    def check(self, f: Callable[[], Tensor], params: Mapping[str, Tensor] | None = None, seed: int = 0) -> Table:
        """The gradients of the parameters against central differences of `f`, which computes the loss again; it must
        give the same loss each time.  Along one random direction each, in float64 (see differences.py)."""
        params = self.params if params is None else dict(params)
        if not params:
            raise ValueError("check: give the parameters: stepper(loss, model), or check(f, {'w': w})")
        names = {tensor._node: name for name, tensor in params.items()}
        gradients = {names[step.node]: step.gradient for step in self._steps if step.node in names}
        return directional_check(f, params, gradients, seed)


def stepper(loss: Tensor, params: Module | Mapping[str, Tensor] | None = None, gradient: Any = None) -> Stepper:
    """A stepper at the start of the backward pass of `loss`.  params: gives leaves their names.

    Errors: RuntimeError for a released graph, or a loss of several entries without `gradient`.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> s = stepper((x * x).sum(), {"x": x})
    >>> s.next().view.formulas
    [('dL/dx', 'g * y'), ('dL/dy', 'g * x')]
    >>> [share.accumulated.tolist() for share in s.view.shares][-1]
    [2.0, 4.0]
    """
    return Stepper(loss, params, gradient)
