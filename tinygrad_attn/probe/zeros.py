"""zeros: why entries of one gradient read 0, for any tensor of any graph, before backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import module_of, to_host
from ..graph import Node
from ..walk import walk
from .local import node_of, ordered, pull
from .small import KINDS, kinds_of_zero

_LIFT = 1e-150  # stands for a softmax weight that underflowed to 0: what it multiplies stays above 0 in float64


def zeros(loss: Any, x: Any) -> np.ndarray:
    """For each entry of dL/dx its kind (``probe.KINDS``): nonzero, structural, underflow or rounding.

    The rules run twice: as they are, and again in float64, with softmax weights that had underflowed lifted
    to 1e-150; masks still make exact zeros of them.  An entry that is 0 both times is structural.
    The graph and every ``.grad`` stay as they are.

    Errors: RuntimeError when the graph is released, or the loss does not depend on x.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> [KINDS[k] for k in zeros((x * [1e-30, 0.0] * 1e-30).sum(), x)]
    ['underflow', 'structural']
    """
    root, node = node_of(loss, "zeros"), node_of(x, "zeros")
    order = ordered(root, "zeros")
    if node not in order:
        raise RuntimeError("zeros: the loss does not depend on this tensor")
    seed = module_of(loss._data).ones(loss.shape, dtype=loss.dtype)
    plain = _gradient(root, node, seed)
    exact = to_host(_wide(order, seed.astype(np.float64), node))
    with np.errstate(divide="ignore"):
        return kinds_of_zero(plain, np.log(np.abs(exact)))


def _gradient(root: Node, node: Node, seed: Any) -> Any:
    for step in walk({root: seed}, retain=True, until=frozenset([node])):
        if step.node is node:
            return to_host(step.gradient)
    return np.zeros(node.shape, node.dtype)


def _wide(order: list[Node], seed: Any, wanted: Node) -> Any:
    """dL/d(wanted) with the same rules on float64 gradients, and fan-ins summed with compensation."""
    pending = {order[0]: (seed, seed * 0)}
    for node in order:
        gradient, lost = pending.pop(node, (None, None))
        if gradient is None:
            continue
        if node is wanted:
            return gradient + lost
        with np.errstate(all="ignore"):
            contributions = pull(node, gradient + lost, kept=_wide_kept(node))
            for parent, contribution in zip(node.parents or (), contributions):
                if parent is not None and contribution is not None:
                    so_far, error = pending.get(parent, (contribution * 0, contribution * 0))
                    total = so_far + contribution
                    part = total - so_far  # Knuth's two-sum: what this addition lost
                    pending[parent] = total, error + ((so_far - (total - part)) + (contribution - part))
    return np.zeros(wanted.shape)


def _wide_kept(node: Node) -> Any:
    """What the node kept, in float64; a softmax's zeros lifted."""

    def wide(value: Any) -> Any:
        return value.astype(np.float64) if getattr(getattr(value, "dtype", None), "kind", "") == "f" else value

    def each(values: Any) -> Any:
        return tuple(wide(v) if not isinstance(v, tuple) else tuple(wide(u) for u in v) for v in values)

    if node.op is not None and node.op.joint is not None:
        return tuple(dict(zip(part, each(part.values()))) for part in node.kept)
    kept = tuple(None if part is None else each(part) for part in node.kept)
    if node.op is not None and node.op.name == "softmax" and kept[0] is not None:
        p, *rest = kept[0]
        kept = ((np.where(p == 0, _LIFT, p) if isinstance(p, np.ndarray) else p, *rest),)
    return kept


__all__ = ["KINDS", "zeros"]
