"""A trace: every named intermediate of one forward and backward pass, with the size of its gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.arrays import to_host
from ..autodiff.mode import watching
from ..autodiff.tensor import Tensor


@dataclass
class NamedStep:
    """One named tensor.  The root mean squares are over finite entries: a mask's -inf is left out.
    gradient_rms is None where no gradient came by."""

    path: str
    shape: tuple[int, ...]
    value_rms: float
    gradient_rms: float | None = None

    @property
    def name(self) -> str:
        """The last part of the path: ``scores`` of ``block.attn.scores``."""
        return self.path.rpartition(".")[2]


def trace(loss: Callable[[], Tensor]) -> list[NamedStep]:
    """Run ``loss().backward()`` and list what was named on the way, in the order of the forward pass.

    Gradients of parameters are added to their ``.grad`` as always.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([3.0, 4.0], requires_grad=True)
    >>> trace(lambda: ((2 * x).named("double") ** 2).sum())
    [NamedStep(path='double', shape=(2,), value_rms=7.07..., gradient_rms=14.14...)]
    """
    found: list[NamedStep] = []

    def watcher(path: str, tensor: Tensor) -> None:
        seen = NamedStep(path, tuple(tensor.shape), _rms(tensor))
        found.append(seen)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: setattr(seen, "gradient_rms", _rms(gradient)))

    with watching(watcher):
        total = loss()
    total.backward()
    return found


def _rms(tensor: Any) -> float:
    values = to_host(tensor.data).astype(np.float64)
    values = values[np.isfinite(values)]
    return float(np.sqrt((values**2).mean())) if values.size else 0.0
