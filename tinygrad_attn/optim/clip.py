"""Clipping: all gradients are scaled together, so that their direction stays."""

from __future__ import annotations

import warnings

import numpy as np

from ..autodiff.arrays import module_of
from ..autodiff.dtypes import widened
from ..autodiff.tensor import Tensor
from .flat import Params, listed


def clip_grad_norm(params: Params, max_norm: float, norm_type: float = 2) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`; gives the norm before, a
    0-d tensor that stays on the device (``float(norm)`` waits for a GPU).

    float16 is measured and scaled in float32.  A norm that is not finite is returned and the gradients are left as
    they are: test it before step().

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([3.0, 4.0], requires_grad=True); w.grad = [3.0, 4.0]
    >>> ta.optim.clip_grad_norm([w], 1.0), w.grad
    (Tensor(5.), Tensor([0.6 0.8]))
    """
    params = listed(params, "clip_grad_norm")
    if not params:
        warnings.warn("clip_grad_norm got no parameters: an exhausted generator?", stacklevel=2)
    grads = [p.grad for p in params if p.grad is not None]
    if not grads:
        return Tensor(0.0)
    module = module_of(grads[0]._data)
    norms = module.stack([module.linalg.norm(widened(g._data).reshape(-1), norm_type) for g in grads])
    total = module.asarray(module.linalg.norm(norms, norm_type))
    clips = module.isfinite(total) & (total > max_norm)
    if module is not np or clips:  # asking would wait for a GPU: there the factor may be 1
        factor = module.where(clips, max_norm / module.where(clips, total, 1.0), 1.0)
        for g in grads:
            wide = widened(g._data)
            g._data = (wide * factor.astype(wide.dtype)).astype(g.dtype, copy=False)
    return Tensor(total)
