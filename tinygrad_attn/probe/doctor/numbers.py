"""The doctor on numbers: where NaN and inf began, singular points, gradients that are exactly 0, a float64 that slipped in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autodiff.arrays import to_host
from ...autodiff.graph import LEAF, Node
from ..local import between
from .evidence import Case
from .finding import Finding, first_index, joined, line_of

_SETS_INFINITY = ("masked_fill", "where")  # a -inf that these write is meant


def findings(case: Case) -> Iterator[Finding]:
    loss_is_fine = bool(np.isfinite(to_host(case.loss._data)).all())
    broken = next((i for i, step in enumerate(case.steps) if not _finite_step(step)), None)
    explained: set[str] = set()
    if not loss_is_fine or broken is not None:
        forward = _forward(case)
        if forward is not None:
            explained.add(forward.where)
            yield forward
        elif broken is not None:
            yield _backward(case, broken)
        elif not loss_is_fine:
            yield Finding(
                "NaN or inf", "the loss", "it is not finite", "nothing can be learned", "give the doctor a function"
            )
    for finding in _singular(case):
        if finding.where not in explained:
            yield finding
    if loss_is_fine and broken is None:
        yield from _all_zero(case)
    yield from _wide(case)


# ---------------------------------------------------------------------------- NaN and inf


def _broken(array: Any) -> np.ndarray:
    """NaN and +inf entries."""
    array = np.asarray(to_host(array)) if not isinstance(array, (int, float)) else np.asarray(array)
    return np.isnan(array) | (array == np.inf) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _lowest(array: Any) -> np.ndarray:
    array = np.asarray(to_host(array))
    return array == -np.inf if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _forward(case: Case) -> Finding | None:
    """The first operation whose result is broken although what it got was not; or the data that came in broken."""
    if case.events is None:
        return _forward_from_graph(case)
    known = {id(event.out) for event in case.events if event.op is not LEAF}
    for event in case.events:
        if event.op.name in _SETS_INFINITY:
            continue
        arrays = [getattr(x, "_data", x) for x in event.inputs]
        out = event.out._data
        bad = _broken(out)
        came_in = [(x, a) for x, a in zip(event.inputs, arrays) if _broken(a).any()]
        if came_in and bad.any() and id(came_in[0][0]) not in known:
            x, a = came_in[0]
            node = getattr(x, "_node", None)
            name = case.names.get(node, "an input") if node is not None else "an input"
            what = f"{name} {tuple(a.shape)} of {event.how} holds {_worst(a)} at {first_index(_broken(a))}"
            return _found(event.line, what, "data")
        if not came_in and not bad.any() and not any(_lowest(a).any() for a in arrays):
            bad = _lowest(out)  # log(0), -1/0
        if not came_in and bad.any():
            index = first_index(bad)
            return _found(
                event.line, f"{event.how} gives {out[index]} at index {index}; {_inputs_at(event.inputs, index)}"
            )
    return None


def _forward_from_graph(case: Case) -> Finding | None:
    """The same from the arrays that the graph happens to know."""
    for node in reversed(case.order):
        value = case.values.get(node)
        if value is None or node.op.name in _SETS_INFINITY or not _broken(value).any():
            if value is None or node.op is not LEAF or not _broken(value).any():
                continue
            return _found(
                line_of(node), f"{case.label(node)} holds {_worst(value)} at {first_index(_broken(value))}", "data"
            )
        known = [case.values[parent] for parent in node.parents or () if parent in case.values]
        if not any(_broken(a).any() for a in known):
            index = first_index(_broken(value))
            return _found(line_of(node), f"{node.op.name} gives {value[index]} at index {index}")
    return None


def _found(line: str, what: str, kind: str = "forward") -> Finding:
    if kind == "data":
        change = "clean the data, or mask these entries: where(mask, x, 0)"
        return Finding("NaN or inf in the data", line, what, "everything made of it is NaN", change)
    why = "it spreads to the loss, or to the gradients in backward"
    change = "keep the input inside the domain: add an epsilon, subtract the maximum, mask before and not after"
    return Finding("NaN or inf in forward", line, what, why, change)


def _worst(array: Any) -> str:
    array = to_host(array)
    return "NaN" if np.isnan(array).any() else "inf"


def _inputs_at(inputs: list[Any], index: tuple[int, ...]) -> str:
    """The inputs' own entries at that place, where their shapes allow it."""
    found = []
    for x in inputs:
        array = np.asarray(to_host(getattr(x, "_data", x)))
        place = index[len(index) - array.ndim :] if array.ndim <= len(index) else ()
        if len(place) == array.ndim and all(i < n for i, n in zip(place, array.shape)):
            found.append(f"{array[place]:.6g}")
    return f"inputs there: {', '.join(found)}" if found else "its inputs are finite"


def _finite_step(step: Any) -> bool:
    return all(c is None or np.isfinite(to_host(c)).all() for c in (step.gradient, *step.contributions))


def _backward(case: Case, place: int) -> Finding:
    step = case.steps[place]
    node = step.node
    name = "a leaf" if node.op is LEAF else node.op.name
    bad = [
        (i, to_host(c)) for i, c in enumerate(step.contributions) if c is not None and not np.isfinite(to_host(c)).all()
    ]
    if not bad:
        return Finding(
            "NaN or inf in backward", line_of(node), f"the gradient of {name} is not finite", "see above", "a hook?"
        )
    position, array = bad[0]
    index = first_index(~np.isfinite(array))
    argument = node.op.arguments[0 if node.op.variadic else node.op.traced[position]]
    return Finding(
        "NaN or inf in backward",
        line_of(node),
        f"the forward pass is finite, but the rule of {name} gives {array[index]} for {argument} at index {index}",
        "the parameter below it becomes NaN with the next step",
        "the derivative is infinite or overflows there: keep the input away from that point, or scale the loss down",
    )


# ---------------------------------------------------------------------------- singular points


def _singular_entries(node: Node) -> np.ndarray | None:
    """Where the operation has no derivative, from what its rule kept; None where it has one everywhere."""
    op = node.op
    if op is LEAF or op.joint is not None:
        return None
    kept = {name: value for need, values in zip(op.needs, node.residuals) for name, value in zip(need, values or ())}
    with np.errstate(all="ignore"):
        if op.name in ("log", "log1p") and "x" in kept:
            return to_host(kept["x"]) <= (0 if op.name == "log" else -1)
        if op.name in ("sqrt", "norm", "std") and "out" in kept:
            return ~(to_host(kept["out"]) > 0)
        if op.name == "pow" and "x" in kept and "y" in kept:
            x, y = (
                np.asarray(to_host(kept["x"])),
                np.asarray(kept["y"] if np.isscalar(kept["y"]) else to_host(kept["y"])),
            )
            return ((x == 0) & (y < 1) & (y != 0)) | ((x < 0) & (y != np.floor(y)))
    return None


def _singular(case: Case) -> Iterator[Finding]:
    for step in case.steps:
        bad = _singular_entries(step.node)
        if bad is None:
            continue
        gradient = np.asarray(to_host(step.gradient))
        touched = np.broadcast_to(bad, gradient.shape) if bad.ndim <= gradient.ndim else bad
        touched = touched & (gradient != 0) if touched.shape == gradient.shape else touched
        if touched.any():
            name = step.node.op.name
            yield Finding(
                "singular point",
                line_of(step.node),
                f"{name} was taken where it has no derivative, at {int(touched.sum())} of {touched.size} entries, "
                f"the first at index {first_index(touched)}",
                "its derivative counts as 0 there, so nothing is learned from these entries",
                "add a small number under the root or logarithm, or leave these entries out with where()",
            )


# ---------------------------------------------------------------------------- exactly 0


def _all_zero(case: Case) -> Iterator[Finding]:
    """Parameters that are connected, and whose gradient is 0 in every entry: where did it become 0?"""
    groups: dict[Node, list[str]] = {}
    for name, p in case.params:
        node = getattr(p, "_node", None)
        if node is None or node.op is not LEAF:
            continue
        gradient = case.gradients.get(node)
        if gradient is None or not p.size or (to_host(gradient) != 0).any():
            continue
        groups.setdefault(_where_zero(case, node), []).append(name)
    for culprit, names in groups.items():
        op = "the leaf" if culprit.op is LEAF else culprit.op.name
        yield Finding(
            "gradient exactly 0",
            line_of(culprit),
            f"{joined(names)}: connected, but every entry of the gradient is 0; it became 0 in {op}",
            "it never learns from this batch",
            _why_zero(op),
        )


def _where_zero(case: Case, node: Node) -> Node:
    on_a_way = between(case.order, node)
    for step in case.steps:
        if step.node not in on_a_way or not (to_host(step.gradient) != 0).any():
            continue
        sent = [
            c for c, parent in zip(step.contributions, step.node.parents or ()) if parent in on_a_way and c is not None
        ]
        if sent and not any((to_host(c) != 0).any() for c in sent):
            return step.node
    return node


def _why_zero(op: str) -> str:
    return {
        "relu": "every input is negative: lower the learning rate, check the bias, or use gelu",
        "clip": "every input is outside the bounds: clip later, or wider",
        "sign": "sign has derivative 0 everywhere: use tanh",
        "mul": "the other factor is 0: a mask, a dropout rate of 1, or a weight that starts at 0",
        "softmax": "the rows are saturated, or have one key only: look at probe.watch(...) and the scale",
        "fused_attention": "the rows are saturated, or have one key only: look at probe.watch(...) and the scale",
        "masked_fill": "everything is masked: check the mask's polarity (True = fill)",
        "cross_entropy": "no target counts: check ignore_index",
        "matmul": "the other matrix is 0: does a weight start at 0?",
    }.get(op, "look at this line's inputs; probe.zeros(loss, parameter) tells underflow from structure")


# ---------------------------------------------------------------------------- float64


def _wide(case: Case) -> Iterator[Finding]:
    """float64 where the parameters are float32: twice the memory and half the speed, unasked."""
    leaves = [(name, p) for name, p in case.params if getattr(p, "_node", None) is not None and p._node.op is LEAF]
    narrow = [name for name, p in leaves if p.dtype != np.float64]
    if not leaves or not narrow:
        return
    wide = [(name, p) for name, p in leaves if p.dtype == np.float64]
    why, change = (
        "all that follows computes in float64: twice the memory, half the speed",
        "dtype='float32' where it is made",
    )
    if wide:
        what = f"{joined([n for n, _ in wide])}: float64, the other {len(narrow)} parameters are not"
        yield Finding("float64", line_of(wide[0][1]._node), what, why, change)
        return
    for node in reversed(case.order):
        if node.op is not LEAF and node.dtype == np.float64:
            what = f"{node.op.name} gives float64, though the parameters are {leaves[0][1].dtype}: another operand is float64"
            yield Finding("float64", line_of(node), what, why, change)
            return
