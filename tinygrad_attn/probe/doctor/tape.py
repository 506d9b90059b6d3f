"""The doctor's first questions: does every parameter hang on the tape, once, and as it was?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autodiff.arrays import to_host
from ...autodiff.graph import LEAF
from ...autodiff.tensor import Tensor
from ..trace import Event, same_memory
from .evidence import Case
from .finding import Finding, joined, line_of


def findings(case: Case) -> Iterator[Finding]:
    if case.loss._node is None:
        yield from _no_graph(case)
    if case.failure is not None:
        yield _failed(case)
    yield from _not_parameters(case)
    yield from _shared(case)
    yield from _unreached(case)
    yield from _forgotten_leaves(case)
    yield from _optimisers(case)


def _no_graph(case: Case) -> Iterator[Finding]:
    cut = _first_cut(case, [p for _, p in case.params])
    yield Finding(
        "no graph",
        cut.line if cut else "the loss",
        "the loss has no graph: no parameter is connected to it" + (f"; the tape was cut by {cut.how}" if cut else ""),
        "backward() has nothing to walk",
        _remedy(cut),
    )


def _failed(case: Case) -> Finding:
    for node in case.order:
        for parent in node.parents or ():
            if parent is not None and parent.edited > node.made:
                return Finding(
                    "edited data",
                    line_of(node),
                    f"{case.label(parent)} was changed after {node.op.name} had used it, before backward",
                    "the rule needs the old values; backward refuses",
                    "update parameters after backward(), under ta.no_grad()",
                )
    return Finding(
        "backward failed", "backward", str(case.failure), "no gradient reaches any parameter", "see the message"
    )


def _not_parameters(case: Case) -> Iterator[Finding]:
    for name, p in case.params:
        if not isinstance(p, Tensor):
            yield Finding(
                "not a tensor", name, f"{name} is a {type(p).__name__}", "it has no gradient", "make it a ta.Tensor"
            )
        elif p._node is not None and p._node.op is not LEAF:
            yield Finding(
                "not a leaf",
                line_of(p._node),
                f"{name} is the result of {p._node.op.name}, not a leaf: its .grad stays None",
                "an optimiser that gets it updates nothing; the gradient goes to what it was made from",
                "give the optimiser the leaf it was made from; to look at this one's gradient: .retain_grad()",
            )
        elif p._node is None:
            yield Finding(
                "no requires_grad",
                _use(case, p),
                f"{name} does not require a gradient",
                "it never learns",
                f"{name} = ta.Tensor(..., requires_grad=True)" + ("" if p.dtype.kind == "f" else ", with floats"),
            )


def _shared(case: Case) -> Iterator[Finding]:
    tensors = [(name, p) for name, p in case.params if isinstance(p, Tensor)]
    for i, (name, p) in enumerate(tensors):
        for other, q in tensors[:i]:
            if p is q:
                what = f"{other} and {name} are the same tensor, listed twice"
            elif p.size and same_memory(p._data, q._data) and np.shares_memory(p._data, q._data):
                what = f"{other} and {name} share their memory, as two parameters"
            else:
                continue
            yield Finding(
                "tied twice",
                line_of(p._node) if p._node is not None else name,
                what,
                "each step moves the same numbers twice",
                "list tied weights once; tie by using one tensor in both places",
            )


def _unreached(case: Case) -> Iterator[Finding]:
    """Parameters on no way to the loss, and what cut the way."""
    if case.loss._node is None:
        return
    reached = set(case.order)
    lost = [(n, p) for n, p in case.params if isinstance(p, Tensor) and p._node is not None and p._node.op is LEAF]
    lost = [(name, p) for name, p in lost if p._node not in reached]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, p in lost:
        groups.setdefault(_why_unreached(case, p), []).append(name)
    for (where, what, change), names in groups.items():
        yield Finding("no gradient", where, f"{joined(names)}: {what}", "it never learns: its .grad stays None", change)


def _why_unreached(case: Case, p: Tensor) -> tuple[str, str, str]:
    """(line, what, remedy)"""
    if case.events is None:
        entries = _constants(case)
        if entries:
            line, text = entries[0]
            return line, f"no way from it to the loss; {text} enters there as a constant", _remedy(None)
        return "the forward pass", "no way from it to the loss", "give the doctor a function that makes the loss"
    cut = _first_cut(case, [p])
    if cut is not None:
        return cut.line, f"the tape was cut by {cut.how}", _remedy(cut)
    last = _last_use(case, p)
    if last is None:
        return (
            line_of(p._node) if p._node is not None else "",
            "the forward pass never uses it",
            "use it, or leave it out",
        )
    return last.line, f"what {last.how} makes of it is not used by the loss", "use the result, or leave the branch out"


def _followers(case: Case, starts: list[Any]) -> Iterator[tuple[Event, bool]]:
    """The events that use one of `starts`, or what was made of it on the tape; True where the event leaves the tape."""
    taped = {id(p) for p in starts}
    for event in case.events or ():
        if any(id(x) in taped for x in event.inputs):
            if event.taped:
                taped.add(id(event.out))
                yield event, False
            elif (
                event.op is not LEAF
                or event.how != "Tensor(...)"
                or event.out._node is None
                or event.out._node.op is LEAF
            ):
                yield event, True


def _first_cut(case: Case, starts: list[Any]) -> Event | None:
    """The event that took the parameter's way to the loss off the tape; one whose result is used again comes first."""
    cuts = [event for event, leaves in _followers(case, starts) if leaves]
    return next((cut for cut in cuts if _is_used(case, cut)), cuts[0] if cuts else None)


def _is_used(case: Case, cut: Event) -> bool:
    arrays = getattr(cut.out, "_data", cut.out)
    after = (case.events or [])[(case.events or []).index(cut) + 1 :]
    return any(same_memory(getattr(x, "_data", x), arrays) for event in after for x in event.inputs)


def _last_use(case: Case, p: Tensor) -> Event | None:
    last = None
    for event, _ in _followers(case, [p]):
        last = event
    return last


def _remedy(cut: Event | None) -> str:
    if cut is None:
        return "look for detach(), .data, .numpy() or ta.Tensor(...) there; give the doctor a function to find the operation"
    if cut.op is not LEAF and cut.out.dtype.kind != "f":
        return f"{cut.how} makes integers, which have no gradient: keep floats"
    if cut.op is not LEAF:
        return "it ran under ta.no_grad(): move it out of that block"
    return f"leave {cut.how} out: compute with the tensor itself"


def _use(case: Case, p: Tensor) -> str:
    return next((event.line for event in case.events or () if any(x is p for x in event.inputs)), "its definition")


def _constants(case: Case) -> list[tuple[str, str]]:
    """Where arrays of floats enter the graph as constants, the one nearest to the loss first."""
    found = []
    for node in case.order:
        op = node.op
        if op is LEAF or op.joint is not None or op.name in ("masked_fill", "where"):
            continue
        for argument, need, kept in zip((op.arguments[i] for i in op.traced), op.needs, node.residuals):
            for name, value in zip(need, kept or ()):
                other = [
                    i for i, t in enumerate(op.traced) if op.arguments[t] == name and (node.parents or ())[i] is None
                ]
                if other and name != argument and getattr(value, "ndim", 0) > 0 and value.dtype.kind == "f":
                    found.append((line_of(node), f"argument {name} of {op.name}, an array {to_host(value).shape},"))
    return found


def _forgotten_leaves(case: Case) -> Iterator[Finding]:
    """Leaves made in an __init__ that get a gradient but are no parameters of the Module: private, or hidden in an object."""
    known = set(case.names)
    for node in case.order if case.is_module else ():
        if node.op is LEAF and node not in known and node.code.co_name == "__init__":
            yield Finding(
                "not among the parameters",
                line_of(node),
                f"a tensor of shape {tuple(node.shape)} gets a gradient, but the module does not list it",
                "an optimiser made of module.parameters() never updates it",
                "make it a public attribute: no leading underscore, in a list, tuple, dict or Module",
            )


def _optimisers(case: Case) -> Iterator[Finding]:
    if not case.optimizers:
        return
    stepped: dict[int, int] = {}
    for optimizer in case.optimizers:
        for p in optimizer.params:
            stepped[id(p)] = stepped.get(id(p), 0) + 1
    leaves = [(n, p) for n, p in case.params if isinstance(p, Tensor) and p._node is not None and p._node.op is LEAF]
    twice = [(n, p) for n, p in leaves if stepped.get(id(p), 0) > 1]
    never = [(n, p) for n, p in leaves if id(p) not in stepped]
    if twice:
        names, line = joined([name for name, _ in twice]), line_of(twice[0][1]._node)  # type: ignore[arg-type]
        why = "each step moves it twice"
        yield Finding("stepped twice", line, f"{names}: in two optimisers", why, "leave it to one of them")
    if never:
        names, line = joined([name for name, _ in never]), line_of(never[0][1]._node)  # type: ignore[arg-type]
        why = "its gradient is computed and thrown away"
        yield Finding("never stepped", line, f"{names}: in no optimiser", why, "give it model.parameters()")
