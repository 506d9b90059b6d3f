"""The doctor's first questions: is every parameter on the tape, once, and unchanged since?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from ...autodiff.graph import LEAF
from ...autodiff.ops.choice import where
from ...autodiff.ops.mask import masked_fill
from ...autodiff.tensor import Tensor
from .events import Event, same_memory
from .evidence import Evidence
from .finding import Finding, Findings, found, joined


def findings(e: Evidence) -> Findings:
    if e.loss._node is None:
        cut = _first_cut(e, [p for _, p in e.params])
        how = f"; the tape was cut by {cut.how}" if cut else ""
        what = f"the loss has no graph: no parameter is connected to it{how}"
        yield found("no graph", cut.line if cut else "the loss", what, _case(cut), how=cut and cut.how)
    if e.failure is not None:
        yield _failed(e)
    yield from _not_parameters(e)
    yield from _shared(e)
    if e.loss._node is not None:
        yield from _unreached(e)
    if e.is_module:
        yield from _forgotten_leaves(e)
    if e.optimizers:
        yield from _optimisers(e)


def _failed(e: Evidence) -> Finding:
    for node in e.order:
        for _, parent in node.inputs:
            if parent is not None and parent.edited > node.made:
                what = f"{e.label(parent)} was changed after {node.op.name} had used it, before backward"
                return found("edited data", node.line, what)
    return found("backward failed", "backward", str(e.failure))


def _not_parameters(e: Evidence) -> Findings:
    for name, p in e.params:
        if not isinstance(p, Tensor):
            yield found("not a tensor", name, f"{name} is a {type(p).__name__}")
        elif p._node is None:
            used = (event.line for event in e.events or () if any(x is p for x in event.inputs))
            what, case = f"{name} does not require a gradient", "" if p.dtype.kind == "f" else "integers"
            yield found("no requires_grad", next(used, "its definition"), what, case, name=name)
        elif p._node.op is not LEAF:
            what = f"{name} is the result of {p._node.op.name}, not a leaf: its .grad stays None"
            yield found("not a leaf", p._node.line, what)


def _shared(e: Evidence) -> Findings:
    for (other, q), (name, p) in combinations(e.tensors, 2):
        what = ""
        if p is q:
            what = f"{other} and {name} are the same tensor, listed twice"
        elif p.size and same_memory(p._data, q._data) and np.shares_memory(p._data, q._data):
            what = f"{other} and {name} share their memory, as two parameters"
        if what:
            yield found("tied twice", name if p._node is None else p._node.line, what)


# ---------------------------------------------------------------------------- no way to the loss


def _unreached(e: Evidence) -> Findings:
    """Parameters on no way to the loss, and what cut the way."""
    reached, groups = set(e.order), defaultdict(list)
    for name, p in e.tensors:
        if p._node is not None and p._node.op is LEAF and p._node not in reached:
            groups[_why_unreached(e, p)].append(name)
    for (line, what, case, how), names in groups.items():
        yield found("no gradient", line, f"{joined(names)}: {what}", case, how=how)


def _why_unreached(e: Evidence, p: Tensor) -> tuple[str, str, str, str]:
    """(line, what, case of the remedy, how it was cut)"""
    assert p._node is not None
    if e.events is None:
        for line, constant in _constants(e):
            return line, f"no way from it to the loss; {constant} enters there as a constant", "", ""
        return "the forward pass", "no way from it to the loss", "unseen", ""
    cut = _first_cut(e, [p])
    if cut is not None:
        return cut.line, f"the tape was cut by {cut.how}", _case(cut), cut.how
    uses = [event for event, _ in _followers(e, [p])]
    if uses:
        return uses[-1].line, f"what {uses[-1].how} makes of it is not used by the loss", "branch", ""
    return p._node.line, "the forward pass never uses it", "unused", ""


def _followers(e: Evidence, starts: list[Any]) -> Iterator[tuple[Event, bool]]:
    """The events that use one of `starts`, or what was made of it on the tape; True where the event leaves the tape."""
    taped = {id(p) for p in starts}
    for event in e.events or ():
        if any(id(x) in taped for x in event.inputs):
            if event.taped:
                taped.add(id(event.out))
            yield event, not event.taped


def _first_cut(e: Evidence, starts: list[Any]) -> Event | None:
    """The event that took the parameter's way to the loss off the tape; one whose result is used again comes first."""
    cuts = [event for event, leaves in _followers(e, starts) if leaves]
    return next((cut for cut in cuts if _is_used(e, cut)), cuts[0] if cuts else None)


def _is_used(e: Evidence, cut: Event) -> bool:
    array, events = getattr(cut.out, "_data", cut.out), e.events or []
    after = events[events.index(cut) + 1 :]
    return any(same_memory(getattr(x, "_data", x), array) for event in after for x in event.inputs)


def _case(cut: Event | None) -> str:
    """Which remedy a cut asks for."""
    if cut is None:
        return ""
    return "off" if cut.op is LEAF else "no_grad" if cut.out.dtype.kind == "f" else "integers"


def _constants(e: Evidence) -> Iterator[tuple[str, str]]:
    """Where arrays of floats enter the graph as constants, the one nearest to the loss first: (line, which)."""
    for node in e.order:
        for argument, parent in node.inputs if node.op not in (masked_fill.op, where.op) else ():
            value: Any = None if parent is not None or node.op.joint is not None else node.saved.get(argument)
            if hasattr(value, "dtype") and value.ndim and value.dtype.kind == "f":
                yield node.line, f"argument {argument} of {node.op.name}, an array {tuple(value.shape)},"


def _forgotten_leaves(e: Evidence) -> Findings:
    """Leaves made in an __init__ that get a gradient but are no parameters: private, or hidden in an object."""
    for node in e.order:
        if node.op is LEAF and node not in e.names and node.code.co_name == "__init__":
            what = f"a tensor of shape {tuple(node.shape)} gets a gradient, but the module does not list it"
            yield found("not among the parameters", node.line, what)


def _optimisers(e: Evidence) -> Findings:
    times = Counter(p._node for optimizer in e.optimizers for p in optimizer.params)
    for kind, what, chosen in (
        ("stepped twice", "in two optimisers", [(name, node) for name, node in e.leaves if times[node] > 1]),
        ("never stepped", "in no optimiser", [(name, node) for name, node in e.leaves if times[node] == 0]),
    ):
        if chosen:
            yield found(kind, chosen[0][1].line, f"{joined([name for name, _ in chosen])}: {what}")
