"""cross_entropy: fused for training, with its reference in primitives beside it."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, module_of
from ..dtypes import narrowed, plain, wide_dtype, widened
from ..operation import op
from .choice import where
from .index import take_along_axis
from .softmax import has_axis, log_softmax


def cross_entropy_reference(
    logits: Array, targets: Array, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Array:
    """cross_entropy in primitives."""
    targets, counted, share = _targets(logits, targets, ignore_index)
    log_p = log_softmax(where(counted[..., None], logits, 0.0), -1)  # an ignored row may hold anything
    picked = take_along_axis(log_p, where(counted, targets, 0)[..., None], -1)[..., 0]
    rows = (1.0 - label_smoothing) * picked
    if label_smoothing:
        rows = rows + (label_smoothing / logits.shape[-1]) * log_p.sum(axis=-1)
    return -(where(counted, rows, 0.0) * share).sum()


def _targets(logits: Array, targets: Array, ignore_index: int) -> tuple[Array, Array, Array]:
    """The targets as an integer array, which of them count, and the weight 1/count of each."""
    data, targets = plain(logits), plain(targets)
    module = module_of(data)
    targets = module.asarray(targets)
    if targets.dtype.kind not in "iu":
        raise TypeError(f"expected integer targets, got {targets.dtype}")
    if targets.shape != data.shape[:-1]:
        raise ValueError(f"expected targets of shape {tuple(data.shape[:-1])}, got {tuple(targets.shape)}")
    counted = targets != ignore_index
    # On a GPU this would wait for the device: there, labels are checked where data is loaded.
    if module is np and targets.size and (targets.min() < 0 or targets.max() >= data.shape[-1]):
        outside = counted & ((targets < 0) | (targets >= data.shape[-1]))
        if outside.any():
            raise IndexError(f"target {targets[outside].flat[0]} is outside the {data.shape[-1]} classes")
    count = counted.sum()
    share = 1.0 / module.maximum(count, 1)
    return targets, counted, share.astype(wide_dtype(data.dtype))


def _cross_entropy_vjp(g: Array, needs: tuple[bool, ...], saved: Array) -> list[Array]:
    return [saved * g]


@op(joint=_cross_entropy_vjp, traced=("logits",), reference=cross_entropy_reference, saves=True)
def cross_entropy(logits: Array, targets: Array, ignore_index: int = -100, label_smoothing: float = 0.0) -> Array:
    """The mean over counted targets of -log softmax(logits)[target]: logits (..., n), integer targets (...).

    Targets equal to `ignore_index` do not count; if none counts, the loss is 0.  label_smoothing e mixes
    the target with e/n of every class.  The gradient (p - onehot)/count is made with the loss: its entry
    at the target is minus the sum of the others, exact also where p is nearly 1.

    Errors: IndexError for a target outside the classes (on the CPU), TypeError for float targets.

    >>> import tinygrad_attn as ta
    >>> ta.cross_entropy([[0.0, 0.0]], [1]).item()
    0.693147...
    """
    has_axis(logits, -1)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"expected label_smoothing between 0 and 1, got {label_smoothing}")
    targets, counted, share = _targets(logits, targets, ignore_index)
    module, n = module_of(logits), logits.shape[-1]
    wide = widened(logits)
    if logits.size == 0:
        return narrowed(module.zeros((), dtype=wide.dtype), logits), wide.copy()
    flat = module.ascontiguousarray(wide.reshape(-1, n))
    row_starts = module.arange(
        0, flat.size, n
    )  # one index into all entries: 40 us in all where pairs took 57 (128 x 32)
    target = row_starts + module.where(counted, targets, 0).reshape(-1)
    winner = row_starts + flat.argmax(axis=-1)
    weight = (counted.reshape(-1) * share).astype(flat.dtype)
    top = flat.reshape(-1)[winner]
    e = flat - module.where(top == -module.inf, 0.0, top).astype(flat.dtype, copy=False)[:, None]
    entries, ones = e.reshape(-1), module.ones(n, dtype=e.dtype)  # (a view; sums over a row are products with ones)
    at_target = entries[target]
    row_sum_shifted = e @ ones if label_smoothing else None
    module.exp(e, out=e)
    ignored = weight == 0
    if module is not np or ignored.any():  # an ignored row may hold anything
        module.copyto(e, 0.0, where=ignored[:, None])
    entries[winner] = 0.0  # the winner's term is exactly 1: log(total) = log1p(sum of the others)
    others = e @ ones
    log_total = module.log1p(others)
    entries[winner] = 1.0
    losses = (1.0 - label_smoothing) * (log_total - at_target)
    if row_sum_shifted is not None:
        losses = losses + label_smoothing * (log_total - row_sum_shifted / n)
    loss = module.where(weight > 0, losses, 0.0) @ weight
    # the gradient, in e's place
    entries[target] = 0.0
    e *= (weight / (1.0 + others))[:, None]
    if label_smoothing:
        e -= (weight * (label_smoothing / n))[:, None]
        entries[target] = 0.0
    entries[target] = -(e @ ones)
    return narrowed(loss, logits), narrowed(e.reshape(logits.shape), logits)
