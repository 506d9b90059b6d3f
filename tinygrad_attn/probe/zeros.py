"""Why does a gradient entry read 0, and how are the others spread?

An entry that reads 0 is one of

    structural   the exact gradient is 0: a masked pair, a constant row
    underflow    the exact gradient is smaller than the smallest number of the dtype
    rounding     the exact gradient could be written down, but a difference or a product lost it
    untold       0, and there was nothing at hand to tell which
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.graph import Node
from ..autodiff.mode import enable_grad, watching
from ..autodiff.ops.activation import sigmoid, tanh
from ..autodiff.ops.elementwise import exp
from ..autodiff.ops.mask import masked_fill
from ..autodiff.ops.reduce import logsumexp
from ..autodiff.ops.softmax import log_softmax, softmax
from ..autodiff.tensor import Tensor
from ..autodiff.walk import gradients_at
from .nodes import node_of, ordered, pull

NONZERO, STRUCTURAL, UNDERFLOW, ROUNDING, UNTOLD = range(5)
KINDS = ("nonzero", "structural", "underflow", "rounding", "untold")


def kinds_of_zero(gradient: Any, log_exact: np.ndarray | None) -> np.ndarray:
    """For each entry one of the kinds above, as int8.  log_exact: log |exact gradient|, -inf where it is 0
    (a logarithm, so that it does not underflow itself); None: zeros stay untold.

    >>> g = np.zeros(3, np.float32)
    >>> [KINDS[k] for k in kinds_of_zero(g, np.array([-np.inf, -200.0, -20.0]))]
    ['structural', 'underflow', 'rounding']
    """
    gradient = to_host(gradient)
    kinds = np.zeros(gradient.shape, np.int8)
    zero = gradient == 0
    if log_exact is None:
        kinds[zero] = UNTOLD
        return kinds
    smallest = np.log(float(np.finfo(gradient.dtype).smallest_subnormal)) - np.log(2.0)  # half of it rounds to 0
    kinds[zero] = np.where(log_exact < smallest, UNDERFLOW, ROUNDING)[zero]
    kinds[zero & (log_exact == -np.inf)] = STRUCTURAL
    return kinds


def log_softmax_gradient(inputs: Any, g: Any) -> np.ndarray:
    """log |dL/d(inputs)| of a softmax over the last axis, exactly enough to never underflow or cancel.

    inputs (..., n): what went into softmax, -inf where hidden.  g (..., n): dL/d(weights).
    log |dL/ds_j| = log p_j + log |h_j - sum_i p_i h_i|,  h = g - g[winner], all in float64.

    >>> np.exp(log_softmax_gradient(np.array([20.0, 0.0]), np.array([1.0, 0.0])))
    array([2.06115361e-09, 2.06115361e-09])
    """
    s, g = to_host(inputs).astype(np.float64), to_host(g).astype(np.float64)
    hidden = s == -np.inf
    top = np.where(np.isfinite(peak := s.max(axis=-1, keepdims=True)), peak, 0.0)
    winner = s.argmax(axis=-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        e = np.exp(s - top)
        log_p = s - top - np.log(e.sum(axis=-1, keepdims=True))
        h = np.where(hidden, 0.0, g - np.take_along_axis(g, winner, -1))
        inner = (np.exp(log_p) * h).sum(axis=-1, keepdims=True)
        log_exact = log_p + np.log(np.abs(h - inner))
    return np.where(hidden | np.isnan(log_exact), -np.inf, log_exact)


@dataclass(frozen=True)
class Spread:
    """How the rows of a gradient (..., rows, n) are spread: row = its Euclidean norm over the last axis."""

    low: float  # the 5 % quantile of the row norms
    median: float
    high: float  # the 95 % quantile
    dead: float  # share of live rows whose norm is below `dead` times what arrived
    rows: int  # rows that could have a gradient
    structural: int  # entries that read 0, by kind
    underflow: int
    rounding: int
    untold: int
    nonfinite: int  # NaN and inf entries; they are in no other figure


def spread(gradient: Any, kinds: np.ndarray, arrived: Any = None, live: Any = None, dead: float = 1e-3) -> Spread:
    """Quantiles, dead rows and the zeros by kind.

    arrived: the norm that a row is compared with (None: the largest row).  live: which rows count (None: all)."""
    g = np.atleast_2d(to_host(gradient)).astype(np.float64)
    finite = np.isfinite(g)
    norms = row_norms(np.where(finite, g, 0.0))
    chosen = np.ones(norms.shape, bool) if live is None else np.broadcast_to(live, norms.shape)
    reference = norms.max(initial=0.0) if arrived is None else np.broadcast_to(arrived, norms.shape)[chosen]
    norms = norms[chosen]
    low, median, high = np.quantile(norms, (0.05, 0.5, 0.95)) if norms.size else (np.nan,) * 3
    share = float((norms <= dead * reference).mean()) if norms.size else 0.0
    counts = np.bincount(kinds[np.isfinite(to_host(gradient))].ravel(), minlength=5)
    _, structural, underflow, rounding, untold = map(int, counts)
    quantiles = float(low), float(median), float(high)
    return Spread(*quantiles, share, norms.size, structural, underflow, rounding, untold, int((~finite).sum()))


def row_norms(g: np.ndarray) -> np.ndarray:
    """The Euclidean norm over the last axis, safe from underflow of the squares.

    >>> row_norms(np.array([[3e-200, 4e-200]]))
    array([5.e-200])
    """
    largest = np.abs(g).max(axis=-1, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    return np.linalg.norm(g / safe[..., None], axis=-1) * largest


# ---------------------------------------------------------------------------- any tensor of any graph

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
    plain = gradients_at({root: seed}, [node], retain=True, until=frozenset([node])).get(node)
    exact = to_host(_wide(order, seed.astype(np.float64), {node}).get(node, np.zeros(node.shape)))
    with np.errstate(divide="ignore"):
        return kinds_of_zero(np.zeros(node.shape, node.dtype) if plain is None else plain, np.log(np.abs(exact)))


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
            if node.op.reference is not None:
                contributions = _through_reference(node, gradient + lost)
            else:
                contributions = pull(node, gradient + lost, residuals=_wide_residuals(node))
            for (_, parent), contribution in zip(node.inputs, contributions):
                if parent is not None and contribution is not None:
                    so_far, error = pending.get(parent, (contribution * 0, contribution * 0))
                    total = so_far + contribution
                    part = total - so_far  # Knuth's two-sum: what this addition lost
                    pending[parent] = total, error + ((so_far - (total - part)) + (contribution - part))
    return found


def _through_reference(node: Node, gradient: Any) -> list[Any]:
    """A fused operation: its reference, made again in float64, where each weight and mask is seen."""
    op, values, inputs = node.op, dict(node.saved), dict(node.inputs)
    assert op.reference is not None
    for name, parent in inputs.items():
        if hasattr(values[name], "dtype"):
            values[name] = Tensor(values[name], parent is not None, dtype=np.float64)
    nodes = [None if parent is None else values[name]._node for name, parent in inputs.items()]
    with enable_grad(), watching(lambda path, tensor: None):  # nobody is shown this one
        out = op.reference(**{name: values[name] for name in op.arguments})
    found = _wide(ordered(out._node, "zeros"), gradient, {made for made in nodes if made is not None})
    return [None if made is None else found.get(made) for made in nodes]


def _wide_residuals(node: Node) -> Any:
    """What the rules saved, in float64; what had underflowed in it, lifted."""

    def wide(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(wide, value))
        if isinstance(value, dict):
            return {name: wide(part) for name, part in value.items()}
        return value.astype(np.float64) if getattr(getattr(value, "dtype", None), "kind", "") == "f" else value

    residuals = wide(node.residuals)
    lift = _LIFTS.get(node.op)
    return residuals if lift is None or residuals[0] is None else (lift(node, *residuals[0]),)


def _softmax_lifted(node: Node, p: Any, *rest: Any) -> tuple[Any, ...]:
    """Weights whose zeros are lifted, except where the operation before softmax was a mask."""
    module, hidden, before = module_of(p), False, node.inputs[0][1]
    if before is not None and before.op is masked_fill.op and "mask" in before.saved:
        hidden = module.asarray(before.saved["mask"]).astype(bool)
    return (module.where((p == 0) & ~module.asarray(hidden), _LIFT, p), *rest)


def _log_softmax_lifted(node: Node, out: Any, axis: int) -> tuple[Any, ...]:
    """log p = 0 hides how far p is from 1: it is the sum of the others."""
    p = np.exp(to_host(out))
    others = np.maximum(p.sum(axis=axis, keepdims=True) - p, _LIFT)
    return module_of(out).asarray(np.where(to_host(out) > -1e-7, -others, to_host(out))), axis


def _nearer(x: Any, top: Any) -> Any:
    """x, no further from `top` than e^-340, which float64 can still write; -inf stays hidden."""
    module = module_of(x)
    return module.where(module.isinf(x), x, module.minimum(module.maximum(x, top - 340.0), top + 340.0))


# operations whose rules meet a number that had underflowed, also in float64: what they saved -> the same, lifted
_LIFTS: dict[Any, Callable[..., tuple[Any, ...]]] = {
    softmax.op: _softmax_lifted,
    log_softmax.op: _log_softmax_lifted,
    exp.op: lambda node, out: (module_of(out).where(out == 0, _LIFT, out),),
    tanh.op: lambda node, x: (_nearer(2.0 * x, 0.0) / 2.0,),
    sigmoid.op: lambda node, x, out: (_nearer(x, 0.0), sigmoid(_nearer(x, 0.0))),
    logsumexp.op: lambda node, x, axis: (_nearer(x, x.max(axis=axis, keepdims=True)), axis),
}
