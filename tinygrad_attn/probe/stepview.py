"""StepView: everything that a reader asks about one step of backward, as text for a terminal and data for a page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import Node
from .nodes import jacobian, pull
from .zeros import row_norms

FEW = 64  # arrays up to this many entries are shown as numbers
FEW_IN_JACOBIAN = 256  # local Jacobians likewise
PROBES = 8  # random gradients that measure a large Jacobian


@dataclass
class Jacobian:
    """d(out)/d(parent).  matrix: all its numbers, where they are few.  diagonal: (least, median, largest magnitude,
    share of zeros) where it is diagonal.  norm: Frobenius, exact with a matrix, else from 8 random probes."""

    shape: tuple[int, int]
    norm: float
    matrix: np.ndarray | None = None
    diagonal: tuple[float, float, float, float] | None = None

    def __str__(self) -> str:
        size = f"{self.shape[0]} x {self.shape[1]}"
        if self.matrix is not None:
            return f"{size}, norm {self.norm:.3g}\n{_numbers(self.matrix)}"
        if self.diagonal is not None:
            least, median, largest, zeros = self.diagonal
            spread = f"|entries| from {least:.3g} over {median:.3g} (median) to {largest:.3g}"
            return f"{size}, diagonal: {spread}, {zeros:.0%} zero"
        return f"{size}, Frobenius norm about {self.norm:.3g}"


@dataclass
class Share:
    """What one parent gets.  accumulated: the sum of all it has received up to this step, `received` of `expected`."""

    argument: str
    parent: str
    place: int | None  # the parent's step
    contribution: np.ndarray | None
    accumulated: np.ndarray | None
    received: int
    expected: int
    jacobian: Jacobian | None


@dataclass
class StepView:
    """One step: the node, its rule and line, the gradient that arrived, and what each parent gets."""

    place: int
    count: int
    label: str
    operation: str
    scope: str  # the module that ran it
    line: str
    formulas: list[tuple[str, str]]
    sources: list[str]  # of the functions that the formulas call
    gradient: np.ndarray
    saved: dict[str, np.ndarray | str]
    shares: list[Share]

    def __str__(self) -> str:
        where = f"   in {self.scope}" if self.scope else ""
        parts = [
            ("line", self.line),
            ("arrives", f"dL/d(out) {_shown(self.gradient)}"),
            *[("rule", f"{gives} = {how}") for gives, how in self.formulas],
            *[("", source) for source in self.sources],
            *[("saved", f"{name} {_shown(value)}") for name, value in self.saved.items()],
        ]
        for share in self.shares:
            parts += _parts(share)
        lines = [f"step {self.place + 1} of {self.count}   {self.label}   {self.operation}{where}"]
        lines += [f"  {title:8} " + text.replace("\n", "\n" + " " * 11) for title, text in parts]
        return "\n".join(lines if self.shares else [*lines, "  this is a leaf: what arrived is its gradient"])


def _parts(share: Share) -> list[tuple[str, str]]:
    """The lines of one parent, (title, text) each."""
    if share.contribution is None:
        return [("sends", f"{share.argument}: nothing (a constant, or no gradient flows)")]
    parts = [("sends", f"{share.argument} -> {share.parent}: {_shown(share.contribution)}")]
    if share.jacobian is not None:
        parts.append(("", f"local Jacobian d(out)/d{share.argument} {share.jacobian}"))
    got = f"{share.received} of {share.expected} contributions"
    return [*parts, ("", f"{share.parent} has {got}: {_shown(share.accumulated)}")]


def as_data(value: Any) -> Any:
    """What JSON holds of a view: its fields; of an array a summary and, where they are few, its numbers as text."""
    if isinstance(value, (StepView, Share)):
        return vars(value)
    if not isinstance(value, np.ndarray):
        return str(value)
    rows = None
    if 0 < value.size <= FEW:
        rows = [[f"{x:.5g}" for x in row] for row in value.reshape(-1, value.shape[-1] if value.ndim else 1)]
    return {"text": _summary(value), "rows": rows}


def saved_by(node: Node) -> dict[str, np.ndarray | str]:
    """What the rules of `node` asked for: arrays on the CPU, settings as text."""
    found: dict[str, np.ndarray | str] = {}
    for name, value in node.saved.items():
        if hasattr(value, "dtype"):
            found[name] = to_host(value)
        elif value is not None:
            text = repr(value)
            found[name] = text if len(text) < 80 else text[:77] + "..."
    return found


def local_jacobian(node: Node, position: int, gradient: Any) -> Jacobian:
    """The local Jacobian towards one parent: whole, or its diagonal, or its norm from 8 random signs."""
    parent = node.inputs[position][1]
    assert parent is not None
    shape = math.prod(node.shape), math.prod(parent.shape)
    if math.prod(shape) <= FEW_IN_JACOBIAN:
        matrix = jacobian(node, position)
        return Jacobian(shape, float(np.linalg.norm(matrix)), matrix)

    def pulled(g: np.ndarray) -> np.ndarray:
        found = pull(node, module_of(gradient).asarray(g.astype(node.dtype)), position)[position]
        return np.zeros(parent.shape) if found is None else to_host(found).astype(np.float64)

    signs = np.random.default_rng(0).integers(0, 2, (PROBES, *node.shape)) * 2.0 - 1.0
    probes = [pulled(g) for g in signs[:2]]
    if node.shape == parent.shape:
        diagonal = pulled(np.ones(node.shape))
        if all((probe == diagonal * g).all() for probe, g in zip(probes, signs)):
            d = np.abs(diagonal)
            spread = float(d.min()), float(np.median(d)), float(d.max()), float((d == 0).mean())
            return Jacobian(shape, float(np.linalg.norm(d)), diagonal=spread)
    probes += [pulled(g) for g in signs[2:]]
    return Jacobian(shape, float(np.sqrt(np.mean([(probe**2).sum() for probe in probes]))))


def _shown(value: np.ndarray | str | None) -> str:
    """A summary and, where they are few, the numbers below it."""
    if not isinstance(value, np.ndarray):
        return value or "nothing"
    numbers = value.dtype.kind == "f" and 1 < value.size <= FEW
    return _summary(value) + (f"\n{_numbers(value)}" if numbers else "")


def _summary(value: np.ndarray) -> str:
    if value.dtype.kind != "f":
        return f"{value.dtype} {value.shape}"
    if value.size == 1:
        return f"{value.shape} {value.item():.6g}"
    finite = value[np.isfinite(value)].astype(np.float64)
    broken = value.size - finite.size
    return f"{value.shape}, norm {row_norms(finite):.4g}" + (f", {broken} NaN or inf" if broken else "")


def _numbers(value: np.ndarray) -> str:
    return np.array2string(value, precision=4, suppress_small=False, max_line_width=100)
