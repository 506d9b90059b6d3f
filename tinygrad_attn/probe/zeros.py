"""zeros: why entries of one gradient read 0, for any tensor of any graph, before backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import Node
from ..autodiff.mode import enable_grad, watching
from ..autodiff.tensor import Tensor
from ..autodiff.walk import walk
from .local import node_of, ordered, pull
from .small import KINDS, kinds_of_zero

_LIFT = 1e-150  # stands for a softmax weight that underflowed to 0: what it multiplies stays above 0 in float64


def zeros(loss: Any, x: Any) -> np.ndarray:
    """For each entry of dL/dx its kind (``probe.KINDS``): nonzero, structural, underflow or rounding.

    The rules run twice: as they are, and again in float64, with softmax weights that had underflowed lifted
    to 1e-150, unless a mask hid them (masked_fill; a bias of -inf counts as underflow).  An entry that is 0 both
    times is structural.
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
    exact = to_host(_wide(order, seed.astype(np.float64), {node}).get(node, np.zeros(node.shape)))
    with np.errstate(divide="ignore"):
        return kinds_of_zero(plain, np.log(np.abs(exact)))


def _gradient(root: Node, node: Node, seed: Any) -> Any:
    for step in walk({root: seed}, retain=True, until=frozenset([node])):
        if step.node is node:
            return to_host(step.gradient)
    return np.zeros(node.shape, node.dtype)


def _wide(order: list[Node], seed: Any, wanted: set[Node]) -> dict[Node, Any]:
    """dL/d(wanted) with the same rules on float64 gradients, and fan-ins summed with compensation."""
    pending, found = {order[0]: (seed, seed * 0)}, {}
    for node in order:
        gradient, lost = pending.pop(node, (None, None))
        if gradient is None:
            continue
        if node in wanted:
            found[node] = gradient + lost
        with np.errstate(all="ignore"):
            fused = node.op.name == "fused_attention"
            contributions = (_through_reference if fused else _through_rules)(node, gradient + lost)
            for parent, contribution in zip(node.parents or (), contributions):
                if parent is not None and contribution is not None:
                    so_far, error = pending.get(parent, (contribution * 0, contribution * 0))
                    total = so_far + contribution
                    part = total - so_far  # Knuth's two-sum: what this addition lost
                    pending[parent] = total, error + ((so_far - (total - part)) + (contribution - part))
    return found


def _through_rules(node: Node, gradient: Any) -> list[Any]:
    return pull(node, gradient, kept=_wide_kept(node))


def _through_reference(node: Node, gradient: Any) -> list[Any]:
    """Fused attention: its explicit form, made again in float64, where each weight and mask is seen."""
    op, kept = node.op, node.residuals[0]
    assert op is not None and op.reference is not None and node.parents is not None
    values = {name: kept[name] for name in op.arguments}
    inputs: list[Tensor | None] = []
    for i, parent in zip(op.traced, node.parents):
        name, wants = op.arguments[i], parent is not None
        if hasattr(values[name], "dtype"):
            values[name] = Tensor(values[name], wants, dtype=np.float64)
        inputs.append(values[name] if wants else None)
    with enable_grad(), watching(lambda path, tensor: None):  # nobody is shown this one
        out = op.reference(**values)
    nodes = {x._node for x in inputs if x is not None and x._node is not None}
    found = _wide(ordered(out._node, "zeros"), gradient, nodes)
    return [None if x is None or x._node is None else found.get(x._node) for x in inputs]


def _wide_kept(node: Node) -> Any:
    """What the node kept, in float64; a softmax's zeros lifted."""

    def wide(value: Any) -> Any:
        return value.astype(np.float64) if getattr(getattr(value, "dtype", None), "kind", "") == "f" else value

    def each(values: Any) -> Any:
        return tuple(wide(v) if not isinstance(v, tuple) else tuple(wide(u) for u in v) for v in values)

    if node.op.joint is not None:
        return tuple(dict(zip(part, each(part.values()))) for part in node.residuals)
    kept = tuple(None if part is None else each(part) for part in node.residuals)
    if node.op.name == "softmax" and kept[0] is not None:
        p, *rest = kept[0]
        kept = ((_lifted(p, (node.parents or (None,))[0]), *rest),)
    return kept


def _lifted(p: Any, masked: Node | None) -> Any:
    """Weights whose zeros are lifted, except where the operation before softmax was a mask."""
    module = module_of(p)
    hidden = False
    if masked is not None and masked.op.name == "masked_fill" and masked.residuals[0]:
        hidden = module.asarray(masked.residuals[0][masked.op.needs[0].index("mask")]).astype(bool)
    return module.where((p == 0) & ~module.asarray(hidden), _LIFT, p)


__all__ = ["KINDS", "zeros"]
