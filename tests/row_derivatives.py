"""All that one row of the table of operations gives on a device: values, gradients, gradients of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from optable import Row

import tinygrad_attn as ta


def derivatives(row: Row, device: str, dtype: Any) -> list[ta.Tensor]:
    """The values, the gradients by plain backward and by create_graph, and the gradients of these."""
    arrays = row.make(np.random.default_rng(0))
    tensors = [ta.Tensor(a.astype(dtype), True, device=device) for a in arrays if a.dtype.kind == "f"]
    out = row(*tensors, *[a for a in arrays if a.dtype.kind != "f"])
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    loss = weighted(outs)
    plain = ta.grad(loss, tensors, retain_graph=True)
    recorded = ta.grad(loss, tensors, create_graph=True)
    twice = weighted(recorded)
    if twice.requires_grad:
        twice.backward()
    return [*outs, *plain, *recorded, *[t.grad for t in tensors if t.grad is not None]]


def weighted(tensors: list[ta.Tensor]) -> ta.Tensor:
    """A sum with fixed random weights: a plain sum would hide errors."""
    rng = np.random.default_rng(1)
    parts = [(t * ta.Tensor(rng.standard_normal(t.shape), dtype=t.dtype, device=t.device)).sum() for t in tensors]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
