"""The fan-in ledger: one tensor's gradient, broken down by the routes it came along.

    x ──> norm ──> q, k, v ──> attention ──┐        dL/dx  =  through q  +  through k
     └───────────── residual ──────────────add  ...          + through v + residual

A route is a way from x to the first operation where it meets another way from x.  Backward is linear: what
comes back along each route is pulled through the rules on its own, and the parts add up to dL/dx."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..attention.fused_op import fused_attention
from ..autodiff.arrays import to_host
from ..autodiff.graph import LEAF, Node
from ..autodiff.ops.elementwise import add
from ..autodiff.tensor import Tensor
from ..autodiff.walk import walk
from ..show import Column, Tabled
from ..show.numbers import number
from ..show.table import Table
from .nodes import between, node_of, ordered, pull


class Edge(NamedTuple):
    """One use of a tensor: the node that used it, in which position, and what it sends back."""

    consumer: Node
    position: int
    contribution: Any


@dataclass(frozen=True)
class Route:
    """name: where it leads.  part: its share of dL/dx, as a Tensor.  operations: those it passes, from x on.
    line: the user's line of the last one.  direct: the part is what backward itself handed to x, bit for bit."""

    name: str
    part: Tensor
    operations: tuple[str, ...]
    line: str
    direct: bool


class Ledger(Tabled):
    """routes, in the order in which their parts arrived; total: dL/dx; table()."""

    def __init__(self, name: str, total: Any, routes: list[Route]) -> None:
        self.name, self.total, self.routes = name, Tensor(total), routes

    def __getitem__(self, name: str) -> Route:
        """The route of that name, or the only one whose name ends like that (``ledger["q"]``)."""
        exact = [route for route in self.routes if route.name == name]
        found = exact or [route for route in self.routes if route.name.rpartition(".")[2] == name]
        if len(found) != 1:
            known = ", ".join(route.name for route in self.routes)
            raise KeyError(f"{'no' if not found else 'more than one'} route {name!r}; there are {known}")
        return found[0]

    def _parts(self) -> np.ndarray:
        """The parts as rows, (routes, entries of x)."""
        return np.stack([_flat(route.part) for route in self.routes])

    def cosines(self) -> np.ndarray:
        """cos[i, j] between the parts of routes i and j (NaN where a part is 0)."""
        parts = self._parts()
        norms = np.linalg.norm(parts, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return parts @ parts.T / np.outer(norms, norms)

    def table(self) -> Table:
        """norm: of the part.  share: <part, total> / <total, total>, they add up to 1.  cos: with the other routes."""
        total, parts = _flat(self.total), self._parts()
        with np.errstate(invalid="ignore"):
            shares = parts @ total / (total @ total)
        rows: list[dict[str, Any]] = []
        for i, (route, part, share, cosines) in enumerate(zip(self.routes, parts, shares, self.cosines())):
            passed = " > ".join(route.operations[:6]) + (" > ..." if len(route.operations) > 6 else "")
            row = {"route": f"{i}  {route.name}", "norm": float(np.linalg.norm(part)), "share": float(share)}
            row |= {f"cos{j}": float(cosine) for j, cosine in enumerate(cosines)}
            rows.append(row | {"passes": passed, "line": route.line})
        columns = [
            Column("route", "route", left=True),
            Column("norm", "norm", lambda norm: number(norm, nan="nan")),
            Column("share", "share", lambda share: f"{100 * share:.3g}%" if share == share else "-"),
            *[Column(f"cos{j}", f"cos {j}", "{:+.2f}".format) for j in range(len(self.routes))],
            Column("passes", "passes", left=True),
        ]
        note = f"the routes add up to dL/d({self.name}), norm {number(float(np.linalg.norm(total)), nan='nan')}"
        return Table(f"Fan-in of {self.name}", columns, rows, [note])


def ledger(loss: Any, x: Any, gradient: Any = None) -> Ledger:
    """dL/dx by route.  Call it between forward and backward: the graph and every ``.grad`` stay as they are.

    Errors: RuntimeError when the graph is released, or the loss does not depend on x.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> found = ledger((x + x * 3.0).sum(), x)
    >>> [(route.name, route.part.numpy().tolist()) for route in found.routes]
    [('residual', [1.0, 1.0]), ('mul', [3.0, 3.0])]
    """
    root, source = node_of(loss, "ledger"), node_of(x, "ledger")
    order = ordered(root, "ledger")
    if source is root:
        raise RuntimeError("ledger: this is the loss itself")
    if source not in order:
        raise RuntimeError("ledger: the loss does not depend on this tensor")
    on_a_way = between(order, source)
    seed = Tensor(np.ones(loss.shape) if gradient is None else gradient, dtype=loss.dtype, device=loss.device)._data
    uses: dict[Node, list[Edge]] = {node: [] for node in on_a_way}
    total = None
    for step in walk({root: seed}, retain=True, until=frozenset([source])):
        if step.node is source:
            total = step.gradient
        elif step.node in on_a_way:
            for i, ((_, parent), part) in enumerate(zip(step.node.inputs, step.contributions)):
                if parent in on_a_way and part is not None:
                    uses[parent].append(Edge(step.node, i, part))
    if total is None:
        raise RuntimeError("ledger: no gradient reaches this tensor: an operation on the way gives none")
    routes = _distinct([_route(way, uses) for way in _ways(source, root, on_a_way, uses)])
    return Ledger(x.name or f"a tensor of shape {x.shape}", total, routes)


def _ways(source: Node, root: Node, on_a_way: set[Node], uses: dict[Node, list[Edge]]) -> list[list[Edge]]:
    """Chains of uses from `source` to the first meeting; a fan-out on the way splits it."""
    finished, open_ways = [], [[edge] for edge in reversed(uses[source])]
    while open_ways:
        way = open_ways.pop()
        end = way[-1].consumer
        meets = sum(parent in on_a_way for parent in end.parents or ()) > 1
        if meets or end is root or not uses[end]:
            finished.append(way)
        else:
            open_ways += [[*way, edge] for edge in reversed(uses[end])]
    return finished


def _route(way: list[Edge], uses: dict[Node, list[Edge]]) -> Route:
    """The part that came along `way`: what arrived at the last fan-out on it, pulled back through the rest."""
    splits = [i for i in range(1, len(way)) if len(uses[way[i - 1].consumer]) > 1]
    last = splits[-1] if splits else 0  # no fan-out after x itself: what the engine handed to x
    part = way[last].contribution
    for edge in reversed(way[:last]):
        pulled = pull(edge.consumer, part, edge.position)[edge.position]
        part = part * 0 if pulled is None else pulled
    end = way[-1].consumer
    operations = tuple(edge.consumer.op.name for edge in way if edge.consumer.op is not LEAF)
    return Route(_name(way), Tensor(part), operations, end.line, last == 0)


_OF_ATTENTION = {("scores", "x"): "q", ("scores", "y"): "k", ("mix", "x"): "weights", ("mix", "y"): "v"}


def _name(way: list[Edge]) -> str:
    """q, k, v of an attention with its path; "residual"; else the module, or the operation, that it enters."""
    end = way[-1].consumer
    argument = end.inputs[way[-1].position][0]
    path, _, step = (end.name or "").rpartition(".")
    if (step, argument) in _OF_ATTENTION:
        return ".".join(filter(None, (path, _OF_ATTENTION[step, argument])))
    first = way[0].consumer
    if end.op is fused_attention.op:
        return ".".join(filter(None, (end.scope, argument)))
    if first is end and first.op is add.op:
        return "residual"
    scopes = [edge.consumer.scope for edge in way]
    entered = [scope for scope in scopes if scope.count(".") > end.scope.count(".") or not end.scope]
    return next(filter(None, entered), first.name or first.op.name)


def _distinct(routes: list[Route]) -> list[Route]:
    """Names made different by a number where two routes share one."""
    times: Counter[str] = Counter()
    found = []
    for route in routes:
        times[route.name] += 1
        again = times[route.name]
        found.append(route if again == 1 else replace(route, name=f"{route.name} ({again})"))
    return found


def _flat(tensor: Tensor) -> np.ndarray:
    return to_host(tensor._data).astype(np.float64).reshape(-1)
