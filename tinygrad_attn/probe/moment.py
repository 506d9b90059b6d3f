"""Moment: one step of backward with everything that a reader asks about it, as plain data and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..autodiff.arrays import to_host
from ..autodiff.graph import Node
from .local import jacobian, pull
from .small import row_norms

SMALL = 64  # arrays up to this many entries are shown as numbers
SMALL_JACOBIAN = 256  # local Jacobians likewise


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
class Moment:
    """One step: the node, its rule and line, the gradient that arrived, and what each parent gets."""

    place: int
    count: int
    label: str
    operation: str
    scope: str  # the module that ran it
    line: str
    formulas: list[tuple[str, str]]
    helpers: list[str]
    gradient: np.ndarray
    kept: list[tuple[str, Any]]
    shares: list[Share] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"   in {self.scope}" if self.scope else ""
        lines = [
            f"step {self.place + 1} of {self.count}   {self.label}   {self.operation}{where}",
            f"  line     {self.line}",
        ]
        lines += [f"  arrives  dL/d(out) {_summary(self.gradient)}"]
        for gives, how in self.formulas:
            lines += [f"  rule     {gives}" + (f":\n{' ' * 11}" if "\n" in how else " = ") + _indented(how, 11)]
        lines += [f"           {_indented(helper, 11)}" for helper in self.helpers]
        lines += [f"  kept     {name} {_summary(value)}" for name, value in self.kept]
        for share in self.shares:
            if share.contribution is None:
                lines.append(f"  sends    {share.argument}: nothing (a constant, or no gradient flows)")
                continue
            lines.append(f"  sends    {share.argument} -> {share.parent}: {_summary(share.contribution)}")
            if share.jacobian is not None:
                lines.append(f"           local Jacobian d(out)/d{share.argument} {_indented(str(share.jacobian), 11)}")
            got = f"{share.received} of {share.expected} contributions"
            lines.append(f"           {share.parent} has {got}: {_summary(share.accumulated)}")
        if not self.shares:
            lines.append("  this is a leaf: what arrived is its gradient")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """For the page: numbers where they are few, a summary else."""
        return {
            "label": self.label,
            "operation": self.operation,
            "scope": self.scope,
            "line": self.line,
            "formulas": self.formulas,
            "helpers": self.helpers,
            "gradient": array_data(self.gradient),
            "kept": [[name, array_data(value)] for name, value in self.kept],
            "shares": [
                {
                    "argument": share.argument,
                    "parent": share.parent,
                    "place": share.place,
                    "contribution": array_data(share.contribution),
                    "accumulated": array_data(share.accumulated),
                    "received": share.received,
                    "expected": share.expected,
                    "jacobian": None if share.jacobian is None else str(share.jacobian),
                }
                for share in self.shares
            ],
        }


def array_data(value: Any) -> dict[str, Any] | None:
    """{"text": a summary, "rows": the numbers as text where they are few}"""
    if value is None:
        return None
    few = isinstance(value, np.ndarray) and 0 < value.size <= SMALL
    rows = (
        [[f"{x:.5g}" for x in row] for row in value.reshape(-1, value.shape[-1] if value.ndim else 1)] if few else None
    )
    return {"text": _summary(value, numbers=False), "rows": rows}


def local_jacobian(node: Node, position: int, gradient: Any) -> Jacobian | None:
    """The local Jacobian towards one parent: whole, or its diagonal, or its norm from 8 random signs."""
    assert node.parents is not None
    parent = node.parents[position]
    if parent is None:
        return None
    size, width = int(np.prod(node.shape)), int(np.prod(parent.shape))
    if size * width <= SMALL_JACOBIAN:
        matrix = jacobian(node, position)
        return Jacobian((size, width), float(np.linalg.norm(matrix)), matrix)
    signs = np.random.default_rng(0).integers(0, 2, (8, *node.shape)) * 2.0 - 1.0
    array = type(gradient)

    def pulled(g: np.ndarray) -> np.ndarray | None:
        g = g.astype(node.dtype)
        found = pull(node, g if array is np.ndarray else _like(gradient, g), position)[position]
        return None if found is None else to_host(found).astype(np.float64)

    first = pulled(signs[0])
    if first is None:
        return Jacobian((size, width), 0.0)
    if tuple(node.shape) == tuple(parent.shape):
        ones, second = pulled(np.ones(node.shape)), pulled(signs[1])
        if (
            ones is not None
            and second is not None
            and (first == ones * signs[0]).all()
            and (second == ones * signs[1]).all()
        ):
            d = np.abs(ones)
            spread = float(d.min()), float(np.median(d)), float(d.max()), float((d == 0).mean())
            return Jacobian((size, width), float(np.linalg.norm(d)), diagonal=spread)
    squares = [float((p**2).sum()) for p in (first, *map(pulled, signs[1:])) if p is not None]
    return Jacobian((size, width), float(np.sqrt(np.mean(squares))))


def _like(gradient: Any, g: np.ndarray) -> Any:
    from ..autodiff.arrays import module_of

    return module_of(gradient).asarray(g)


def _summary(value: Any, numbers: bool = True) -> str:
    if value is None:
        return "nothing"
    if not isinstance(value, np.ndarray):
        text = repr(value)
        return text if len(text) < 80 else text[:77] + "..."
    if value.dtype.kind != "f":
        return f"{value.dtype} {value.shape}"
    if value.size == 1:
        return f"{tuple(value.shape)} {float(value.reshape(-1)[0]):.6g}"
    finite = value[np.isfinite(value)].astype(np.float64)
    broken = value.size - finite.size
    text = f"{tuple(value.shape)}, norm {float(row_norms(finite.reshape(1, -1))[0]):.4g}"
    text += f", {broken} NaN or inf" if broken else ""
    if numbers and value.size <= SMALL:
        text += "\n" + _numbers(value)
        return _indented(text, 11)
    return text


def _numbers(value: np.ndarray) -> str:
    return np.array2string(value, precision=4, suppress_small=False, max_line_width=100)


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)
