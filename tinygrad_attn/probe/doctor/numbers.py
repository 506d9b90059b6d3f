"""The doctor on numbers: where NaN and inf began, singular points, gradients that are 0, a float64 that slipped in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...attention.fused_op import fused_attention
from ...autodiff.arrays import to_host
from ...autodiff.graph import LEAF, Node, Op
from ...autodiff.ops.choice import where
from ...autodiff.ops.elementwise import log, log1p, pow, sqrt
from ...autodiff.ops.mask import masked_fill
from ...autodiff.ops.reduce import norm, std
from ...autodiff.ops.softmax import softmax
from ...autodiff.walk import Step
from ..nodes import between
from .evidence import Evidence
from .finding import Finding, Findings, first_index, found, joined

_SETS_INFINITY = (masked_fill.op, where.op)  # a -inf that these write is meant


def findings(e: Evidence) -> Findings:
    loss_is_fine = _is_finite(e.loss._data)
    broken = next((step for step in e.steps if not all(map(_is_finite, (step.gradient, *step.contributions)))), None)
    origin = None
    if not loss_is_fine or broken is not None:
        origin = _forward(e)
        yield origin or (_backward(broken) if broken else found("NaN or inf", "the loss", "it is not finite"))
    for finding in _singular(e):
        if origin is None or finding.where != origin.where:
            yield finding
    if loss_is_fine and broken is None:
        yield from _all_zero(e)
    yield from _wide(e)


# ---------------------------------------------------------------------------- NaN and inf


def _is_finite(array: Any) -> bool:
    return array is None or bool(np.isfinite(to_host(array)).all())


def _broken(array: np.ndarray) -> np.ndarray:
    """NaN and +inf entries."""
    return np.isnan(array) | (array == np.inf) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _operations(e: Evidence) -> Iterator[tuple[str, str, list[tuple[str, np.ndarray]], np.ndarray]]:
    """(operation, line, inputs, result) in forward order, as far as they are known.  An input: (what to call it
    where no operation made it, array)."""
    if e.events is None:
        for node in reversed(e.order):
            if node in e.values and node.op is not LEAF and node.op not in _SETS_INFINITY:
                known = [parent for _, parent in node.inputs if parent in e.values]
                inputs = [(e.label(p) if p.op is LEAF else "", e.values[p]) for p in known if p is not None]
                yield node.op.name, node.line, inputs, e.values[node]
        return
    made: set[int] = set()
    named: dict[Any, str] = dict(e.names)
    for event in e.events:
        if event.op is not LEAF and event.op not in _SETS_INFINITY:
            names = ["" if id(x) in made else named.get(getattr(x, "_node", None), "an input") for x in event.inputs]
            yield event.how, event.line, list(zip(names, map(_array, event.inputs))), _array(event.out)
        if event.op is not LEAF:
            made.add(id(event.out))


def _array(x: Any) -> np.ndarray:
    x = getattr(x, "_data", x)
    return np.asarray(x if isinstance(x, np.generic) else to_host(x))


def _forward(e: Evidence) -> Finding | None:
    """The first operation whose result is broken although what it got was not; or the data that came in broken."""
    for operation, line, inputs, out in _operations(e):
        bad = _broken(out)
        came_in = [(name, array) for name, array in inputs if _broken(array).any()]
        if came_in:
            name, array = came_in[0]
            if name and bad.any():
                worst = "NaN" if np.isnan(array).any() else "inf"
                what = f"{name} {array.shape} of {operation} holds {worst} at {first_index(_broken(array))}"
                return found("NaN or inf in the data", line, what)
            continue
        if not bad.any() and e.events is not None and not any((array == -np.inf).any() for _, array in inputs):
            bad = out == -np.inf  # log(0), -1/0
        if bad.any():
            index = first_index(bad)
            what = f"{operation} gives {out[index]} at index {index}; {_inputs_at(inputs, index)}"
            return found("NaN or inf in forward", line, what)
    return None


def _inputs_at(inputs: list[tuple[str, np.ndarray]], index: tuple[int, ...]) -> str:
    """The inputs' own entries at that place, where their shapes allow it."""
    shown = []
    for _, array in inputs:
        place = index[max(len(index) - array.ndim, 0) :]
        if len(place) == array.ndim and all(i < n for i, n in zip(place, array.shape)):
            shown.append(f"{array[place]:.6g}")
    return f"inputs there: {', '.join(shown)}" if shown else "its inputs are finite"


def _backward(step: Step) -> Finding:
    node = step.node
    for (argument, _), part in zip(node.inputs, step.contributions):
        if not _is_finite(part):
            index = first_index(~np.isfinite(to_host(part)))
            value = to_host(part)[index]
            what = f"the rule of {node.op.name} gives {value} for {argument} at index {index}"
            return found("NaN or inf in backward", node.line, f"the forward pass is finite, but {what}")
    name = "a leaf" if node.op is LEAF else node.op.name
    return found("NaN or inf in backward", node.line, f"the gradient of {name} is not finite", "arrived")


# ---------------------------------------------------------------------------- singular points

_SINGULAR: dict[Op, Callable[..., Any]] = {  # where the operation has no derivative, from what its rule saved
    log.op: lambda x, **_: x <= 0,
    log1p.op: lambda x, **_: x <= -1,
    sqrt.op: lambda out, **_: ~(out > 0),
    norm.op: lambda out, **_: ~(out > 0),
    std.op: lambda out, **_: ~(out > 0),
    pow.op: lambda x, y=1, **_: ((x == 0) & (y < 1) & (y != 0)) | ((x < 0) & (y != np.floor(y))),
}


def _singular(e: Evidence) -> Findings:
    for step in e.steps:
        node, gradient = step.node, to_host(step.gradient)
        if node.op not in _SINGULAR:
            continue
        saved = {name: to_host(value) if hasattr(value, "shape") else value for name, value in node.saved.items()}
        with np.errstate(all="ignore"):
            bad = np.broadcast_to(_SINGULAR[node.op](**saved), gradient.shape) & (gradient != 0)
        if bad.any():
            place = f"at {int(bad.sum())} of {bad.size} entries, the first at index {first_index(bad)}"
            yield found("singular point", node.line, f"{node.op.name} was taken where it has no derivative, {place}")


# ---------------------------------------------------------------------------- exactly 0


def _is_zero(gradient: Any) -> bool:
    return not (to_host(gradient) != 0).any()


def _all_zero(e: Evidence) -> Findings:
    """Parameters that are connected, and whose gradient is 0 in every entry: where did it become 0?"""
    groups = defaultdict(list)
    for name, node in e.leaves:
        if node in e.gradients and 0 not in node.shape and _is_zero(e.gradients[node]):
            groups[_where_zero(e, node)].append(name)
    for culprit, names in groups.items():
        if _only_at_first(e, culprit) or _one_key(culprit):
            continue
        op = "the leaf" if culprit.op is LEAF else culprit.op.name
        case = "constant" if culprit.op is softmax.op and _even_rows(e, culprit) else culprit.op.name
        what = f"{joined(names)}: connected, but every entry of the gradient is 0; it became 0 in {op}"
        yield found("gradient exactly 0", culprit.line, what, case)


def _only_at_first(e: Evidence, node: Node) -> bool:
    """Is the other factor a weight that starts at 0 and learns in the first step (an adapter, a gate)?"""
    step = next(step for step in e.steps if step.node is node)
    return any(
        parent is not None
        and hasattr(value := node.saved.get(argument, e.values.get(parent)), "dtype")
        and _is_zero(value)
        and not (part is None or _is_zero(part))
        for (argument, parent), part in zip(node.inputs, step.contributions)
    )


def _one_key(node: Node) -> bool:
    """Is there nothing to choose from?  Then the weight is 1, whatever the score is."""
    if node.op is fused_attention.op:
        return bool(node.saved["k"].shape[-2] == 1)
    return node.op is softmax.op and node.shape[int(node.saved["axis"])] == 1


def _even_rows(e: Evidence, node: Node) -> bool:
    """Does each row of weights get the same gradient at all its entries?  Their sum is 1, so nothing can change."""
    g = to_host(e.gradients[node])
    return bool(np.allclose(g, g.mean(axis=int(node.saved["axis"]), keepdims=True), rtol=1e-5, atol=0))


def _where_zero(e: Evidence, node: Node) -> Node:
    """The node that received a gradient and sent only zeros towards `node`."""
    on_a_way = between(e.order, node)
    for step in e.steps:
        if step.node in on_a_way and not _is_zero(step.gradient):
            parts = zip(step.node.inputs, step.contributions)
            sent = [part for (_, parent), part in parts if parent in on_a_way and part is not None]
            if sent and all(map(_is_zero, sent)):
                return step.node
    return node


# ---------------------------------------------------------------------------- float64


def _wide(e: Evidence) -> Findings:
    """float64 where the parameters are float32: twice the memory and half the speed, unasked."""
    wide = [(name, node) for name, node in e.leaves if node.dtype == np.float64]
    narrow = [node.dtype for _, node in e.leaves if node.dtype != np.float64]
    if not narrow:
        return
    if wide:
        names = joined([name for name, _ in wide])
        yield found("float64", wide[0][1].line, f"{names}: float64, the other {len(narrow)} parameters are not")
        return
    for node in reversed(e.order):
        if node.op is not LEAF and node.dtype == np.float64:
            what = f"{node.op.name} gives float64, though the parameters are {narrow[0]}: another operand is float64"
            yield found("float64", node.line, what)
            return
