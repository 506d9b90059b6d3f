"""stepper: walk backward through a graph node by node, forth and back, and look at everything on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import LEAF, Node
from ..autodiff.tensor import Tensor
from ..autodiff.walk import Step
from ..nn.module import Module
from ..show import Column
from ..show.numbers import number
from ..show.table import Table
from .local import argument_names, called, every_step, kept_by_name, node_of, ordered
from .moment import Moment, Share, local_jacobian
from .rules import formulas, helpers


class Stepper:
    """``s = stepper(loss)``; ``print(s)`` shows the step; ``s.next()``, ``s.back()``, ``s.go(5)``, ``s.find("scores")``;
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
        self._order = ordered(root, "stepper")
        self.params = dict(params.named_parameters()) if isinstance(params, Module) else dict(params or {})
        self._names = {tensor._node: name for name, tensor in self.params.items() if tensor._node is not None}
        self._walk = every_step(root, seed)
        self._done: list[Step] = []
        self._place: dict[Node, int] = {}
        self._expected = self._count_uses()
        self.place = 0
        self._reach(0)

    def _count_uses(self) -> dict[Node, int]:
        uses: dict[Node, int] = {}
        for node in self._order:
            for parent in node.parents or ():
                if parent is not None:
                    uses[parent] = uses.get(parent, 0) + 1
        return uses

    def _reach(self, place: int) -> bool:
        """Walk on until step `place` is known; False when backward ends before."""
        while len(self._done) <= place:
            step = next(self._walk, None)
            if step is None:
                return False
            self._place[step.node] = len(self._done)
            self._done.append(step)
        return True

    # ------------------------------------------------------------------------ going about

    def __len__(self) -> int:
        """How many steps backward has."""
        self._reach(len(self._order))
        return len(self._done)

    def next(self) -> Stepper:
        """One step on; at the end it stays."""
        return self.go(self.place + 1) if self._reach(self.place + 1) else self

    def back(self) -> Stepper:
        """One step back; at the loss it stays."""
        return self.go(max(self.place - 1, 0))

    def go(self, place: int) -> Stepper:
        """To step `place` (0 is the loss, -1 the last).  Errors: IndexError outside."""
        wanted = place if place >= 0 else len(self) + place
        if wanted < 0 or not self._reach(wanted):
            raise IndexError(f"stepper: there is no step {place}; backward has {len(self)} steps")
        self.place = wanted
        return self

    def find(self, text: str) -> Stepper:
        """To the next step whose name or operation holds `text`, else whose line does; after the last comes the first.

        Errors: KeyError when none does."""
        count = len(self)
        after = [(self.place + i) % count for i in range(1, count + 1)]
        for looked_at in (lambda n: f"{self._label(n)} {self._operation(n)} {n.scope}", lambda n: n.line):
            for place in after:
                if text in looked_at(self._done[place].node):
                    return self.go(place)
        raise KeyError(f"stepper: no step has {text!r} in its name, operation or line")

    # ------------------------------------------------------------------------ looking

    @property
    def moment(self) -> Moment:
        """Everything about the present step."""
        return self.at(self.place)

    def at(self, place: int) -> Moment:
        """Everything about step `place`, without going there."""
        self._reach(place)
        step = self._done[place]
        node, op = step.node, step.node.op
        moment = Moment(
            place,
            len(self._order),
            self._label(node),
            self._operation(node),
            node.scope,
            node.line,
            formulas(op) if op is not None else [],
            helpers(op) if op is not None else [],
            to_host(step.gradient),
            _kept(node),
        )
        for i, (argument, parent, contribution) in enumerate(
            zip(argument_names(node), node.parents or (), step.contributions)
        ):
            if parent is None:
                continue
            accumulated, received = self._accumulated(parent, place)
            flowing = contribution is not None
            moment.shares.append(
                Share(
                    argument,
                    self._label(parent),
                    self._place.get(parent),
                    to_host(contribution) if flowing else None,
                    accumulated,
                    received,
                    self._expected[parent],
                    local_jacobian(node, i, step.gradient) if flowing else None,
                )
            )
        return moment

    def _accumulated(self, parent: Node, place: int) -> tuple[np.ndarray | None, int]:
        """What `parent` has received up to step `place`, summed in the order in which backward sums."""
        total, received = None, 0
        for step in self._done[: place + 1]:
            for other, contribution in zip(step.node.parents or (), step.contributions):
                if other is parent:
                    received += 1
                    if contribution is not None:
                        total = contribution if total is None else total + contribution
        return (None if total is None else to_host(module_of(total).asarray(total))), received

    def _label(self, node: Node) -> str:
        name = called(node) or self._names.get(node)
        return name or (f"leaf {tuple(node.shape)}" if node.op is LEAF else node.op.name)

    def _operation(self, node: Node) -> str:
        return f"{node.op.name} {tuple(node.shape)}"

    def __str__(self) -> str:
        return str(self.moment)

    def __repr__(self) -> str:
        return f"Stepper(step {self.place + 1} of {len(self._order)}, {self._label(self._done[self.place].node)})"

    # ------------------------------------------------------------------------ showing

    def run(self) -> None:
        """In a terminal: n or Enter: on; p: back; a number: go there; /text: find; h: write a page; q: leave."""
        from .stepper_terminal import run

        run(self)

    def to_html(self, path: str | Path) -> None:
        """One page with every step, which opens from disk."""
        from .stepper_page import stepper_page

        Path(path).write_text(stepper_page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        from .stepper_page import notebook_frame

        return notebook_frame(self)

    # ------------------------------------------------------------------------ checking

    def check(self, f: Callable[[], Tensor], params: Mapping[str, Tensor] | None = None, seed: int = 0) -> Table:
        """The sums at the parameters against central differences of `f`, which makes the loss again.

        Each parameter moves along one random direction u: <dL/dw, u> against (f(w + h u) - f(w - h u)) / 2h, with the
        parameters in float64 meanwhile, so that f computes in float64.  f must give the same loss each time."""
        params = self.params if params is None else dict(params)
        if not params:
            raise ValueError("check: give the parameters: stepper(loss, model), or check(f, {'w': w})")
        self._reach(len(self._order))
        found = {
            name: self._done[self._place[t._node]].gradient for name, t in params.items() if t._node in self._place
        }
        rng = np.random.default_rng(seed)
        before = {name: tensor._data for name, tensor in params.items()}
        rows: list[dict[str, Any]] = []
        try:
            for tensor in params.values():
                tensor._data = tensor._data.astype(np.float64)
            for name, gradient in found.items():
                tensor = params[name]
                module, start = module_of(tensor._data), tensor._data
                u = rng.standard_normal(tensor.shape)
                u /= np.linalg.norm(u) or 1.0
                h = 1e-5 * max(1.0, float(np.linalg.norm(to_host(start))))
                ends = []
                for sign in (1, -1):
                    tensor._data = start + module.asarray(sign * h * u)
                    ends.append(float(f().item()))
                tensor._data = start
                measured, ours = (ends[0] - ends[1]) / (2 * h), float((to_host(gradient).astype(np.float64) * u).sum())
                size = max(abs(measured), 1e-3 * float(np.linalg.norm(to_host(gradient))), 1e-12)
                rows.append({"name": name, "ours": ours, "measured": measured, "error": abs(ours - measured) / size})
        finally:
            for name, tensor in params.items():
                tensor._data = before[name]
        columns = [Column("name", "parameter", left=True), Column("ours", "<dL/dw, u>", lambda v: number(v, 6, "nan"))]
        columns += [
            Column("measured", "difference", lambda v: number(v, 6, "nan")),
            Column("error", "relative\nerror", lambda v: number(v, nan="nan")),
        ]
        return Table("Gradients against central differences", columns, sorted(rows, key=lambda row: -row["error"]))


def stepper(loss: Tensor, params: Module | Mapping[str, Tensor] | None = None, gradient: Any = None) -> Stepper:
    """A stepper at the start of the backward pass of `loss`.  params: gives leaves their names.

    Errors: RuntimeError for a released graph, or a loss of several entries without `gradient`.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> s = stepper((x * x).sum(), {"x": x})
    >>> s.next().moment.formulas
    [('dL/dx', 'g * y'), ('dL/dy', 'g * x')]
    >>> [share.accumulated.tolist() for share in s.moment.shares][-1]
    [2.0, 4.0]
    """
    return Stepper(loss, params, gradient)


def _kept(node: Node) -> list[tuple[str, Any]]:
    """(name, value) of what the rules asked for."""
    found = {name: value for name, value in kept_by_name(node).items() if value is not None}
    return [(name, to_host(value) if hasattr(value, "dtype") else value) for name, value in found.items()]
