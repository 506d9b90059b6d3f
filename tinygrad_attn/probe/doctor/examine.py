"""doctor: what is wrong with the gradient flow of this loss?  What, where, why it matters, what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...autodiff.tensor import Tensor
from ...nn.module import Module
from . import attention, numbers, tape
from .events import followed
from .evidence import Evidence, named
from .finding import Report


def doctor(
    loss: Tensor | Callable[[], Tensor],
    params: Module | Mapping[str, Any] | Iterable[Any] | None = None,
    optimizer: Any = None,
) -> Report:
    """Look for the usual faults; no finding on a healthy model.

    loss: better a function that makes the loss (then every operation of the forward pass is followed), or the
    loss itself, before backward (then what the graph kept is looked at).  params: a Module, a dict or a sequence.
    optimizer: one, or several, to see that each parameter is stepped once.  Nothing is stepped, no ``.grad`` filled.

    Looks for: parameters without gradient and the operation that cut the tape; the first NaN or inf, forward or
    backward; singular points; gradients that are exactly 0; masks inverted, on the wrong axis or after softmax; a
    scale that is not 1/sqrt(d_k); dead heads; float64 among float32; weights listed or stepped twice; data edited
    too early; softmax before cross_entropy; ignored targets.

    Errors: RuntimeError when the graph is released; TypeError when the function gives no Tensor.

    >>> import tinygrad_attn as ta
    >>> W = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> b = ta.Tensor([1.0], requires_grad=True)
    >>> print(doctor(lambda: (W * 2.0 + b.detach()).sum(), {"W": W, "b": b})[0].kind)
    no gradient
    """
    if isinstance(loss, Module):
        raise TypeError(
            "doctor: expected what makes the loss, got a Module; write doctor(lambda: loss(model(x)), model)"
        )
    notes = []
    events = None
    if not isinstance(loss, Tensor) and callable(loss):
        with np.errstate(all="ignore"), followed() as events:
            loss = loss()
    else:
        how = "pass the function that makes it to follow every operation of the forward pass"
        notes.append(f"only the loss was given: {how}")
    if not isinstance(loss, Tensor):
        raise TypeError(f"doctor: expected a Tensor, or a function that makes one, got {type(loss).__name__}")
    if loss.size != 1:
        raise RuntimeError(
            f"doctor: expected a loss of one entry, got shape {loss.shape}; write loss.mean() or loss.sum()"
        )
    optimizers = optimizer if isinstance(optimizer, (list, tuple)) else [] if optimizer is None else [optimizer]
    evidence = Evidence(loss, named(params), events, isinstance(params, Module), list(optimizers))
    if not evidence.params:
        notes.append("no parameters were given: parameters without gradient cannot be found")
    return Report((finding for room in (tape, numbers, attention) for finding in room.findings(evidence)), notes)
