"""Which operation made the first NaN or Inf?  One more pass that looks at every value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of
from ..autodiff.graph import LEAF, Node, Traced
from ..autodiff.mode import drawing, listening
from ..autodiff.ops.loss import cross_entropy
from ..autodiff.walk import walk
from ..nn.module import Module


def first_bad(model: Module, tokens: Any, targets: Any, draws: Callable[[], Any]) -> str:
    """Names the first parameter, operation or backward rule that is not finite for this batch."""
    for name, parameter in model.named_parameters():
        if not _finite(parameter._data):
            return f"the parameter {name} is not finite"
    bad: list[Any] = []

    def heard(what: Any, given: Any, out: Any, frame: Any) -> None:
        if not bad and isinstance(out, Traced) and not _finite(out._data):
            bad.append(out)

    with drawing(draws), listening(heard), np.errstate(all="ignore"):
        loss = cross_entropy(model(tokens), targets)
    if bad:
        return f"the first value that is not finite is the result of {_called(bad[0]._node)}"
    ones = module_of(loss._data).ones_like(loss._data)
    with np.errstate(all="ignore"):
        for step in walk({loss._node: ones}):
            if _finite(step.gradient) and not all(_finite(part) for part in step.contributions if part is not None):
                return f"all values are finite; the first gradient that is not comes from {_called(step.node)}"
    return "each gradient is finite, but their sum of squares is not: the loss is too steep here"


def _called(node: Node) -> str:
    """An operation and the module that it ran in: ``matmul in blocks.0.mlp.down``."""
    return ("a parameter" if node.op is LEAF else node.op.name) + (f" in {node.scope}" if node.scope else "")


def _finite(array: Any) -> bool:
    return bool(module_of(array).isfinite(array).all())
