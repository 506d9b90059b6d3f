"""Which operation made the first NaN or Inf?  One more pass that looks at every value.

Every result has the class of its inputs, so parameters of a watching class make the whole forward pass
watch itself.  Ordinary training pays nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of
from ..autodiff.graph import Node, Traced
from ..autodiff.mode import drawing
from ..autodiff.ops.loss import cross_entropy
from ..autodiff.tensor import Tensor
from ..autodiff.walk import walk
from ..nn.module import Module


def first_bad(model: Module, tokens: Any, targets: Any, draws: Callable[[], Any]) -> str:
    """Names the first parameter, operation or backward rule that is not finite for this batch."""
    for name, parameter in model.named_parameters():
        if not _finite(parameter._data):
            return f"the parameter {name} is not finite"
    seen: list[Any] = []

    def note(self: Any, array: Any) -> None:
        slot.__set__(self, array)
        if not seen and not _finite(array):
            seen.append(self)

    slot: Any = Traced.__dict__["_data"]
    watching: Any = type("Watching", (Tensor,), {"__slots__": (), "_data": property(slot.__get__, note)})
    parameters = model.parameters()
    try:
        for parameter in parameters:
            parameter.__class__ = watching
        with drawing(draws), np.errstate(all="ignore"):
            loss = cross_entropy(model(tokens), targets)
    finally:
        for parameter in parameters:
            parameter.__class__ = Tensor
    if seen:
        return f"the first value that is not finite is the result of {_called(seen[0]._node)}"
    ones = module_of(loss._data).ones_like(loss._data)
    with np.errstate(all="ignore"):
        for step in walk({loss._node: ones}):
            if _finite(step.gradient) and not all(_finite(part) for part in step.contributions if part is not None):
                return f"all values are finite; the first gradient that is not comes from {_called(step.node)}"
    return "each gradient is finite, but their sum of squares is not: the loss is too steep here"


def _called(node: Node) -> str:
    """An operation and the module that it ran in: ``matmul in blocks.0.mlp.down``."""
    return (node.op.name if node.op else "a parameter") + (f" in {node.scope}" if node.scope else "")


def _finite(array: Any) -> bool:
    return bool(module_of(array).isfinite(array).all())
