"""Fused attention: the same function as the explicit one, without the (n_q, n_k) array.

One node in the graph.  Forward keeps q, k, v, out and what the kernels ask to keep (the row log-sum-exp);
backward recomputes the weights block by block (kernels/).  Its reference is the explicit attention:
gradients of gradients go through it, and under a watcher it fills what is watched while the fused
gradient still flows, so that a watched run equals an unwatched one bit for bit."""

from __future__ import annotations

from typing import Any

from ..autodiff.arrays import Array
from ..autodiff.graph import Traced
from ..autodiff.mode import current, enable_grad, no_grad
from ..autodiff.operation import op
from ..autodiff.tensor import Tensor
from . import kernels
from .checks import bias_of, scale_of, scores_shape, tensors
from .dropout import Pattern, pattern_of
from .explicit import attend
from .masks import Causal, causal_offset, checked


def _reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Any,
    keep: Array | None,
    offset: int | None,
    scale: float,
    pattern: Pattern | None,
) -> Tensor:
    return attend(q, k, v, bias, keep, offset, scale, pattern)[0]


def _vjp(
    g: Array,
    needs: tuple[bool, bool, bool, bool],
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    keep: Array | None,
    offset: int | None,
    scale: float,
    pattern: Pattern | None,
    out: Array,
    saved: Array,
) -> list[Array | None]:
    return list(
        kernels.backward(
            g,
            q,
            k,
            v,
            out,
            saved,
            needs=needs,
            scale=scale,
            causal_offset=offset,
            keep=keep,
            bias=bias,
            dropout=pattern,
        )
    )


@op(joint=_vjp, traced=("q", "k", "v", "bias"), reference=_reference, saves=True)
def fused(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    keep: Array | None,
    offset: int | None,
    scale: float,
    pattern: Pattern | None,
) -> Array:
    """softmax(scale q k^T + bias) v over visible keys, by the kernels.

    >>> import numpy as np
    >>> fused(np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 5)), None, None, None, 1.0, None).shape
    (1, 5)
    """
    return kernels.forward(q, k, v, scale=scale, causal_offset=offset, keep=keep, bias=bias, dropout=pattern)


def fused_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: Causal = False,
    scale: float | None = None,
    bias: Any = None,
    dropout: float = 0.0,
) -> Tensor:
    """``scaled_dot_product_attention`` with the same arguments and the output only, (..., n_q, d_v): blocked, with
    memory linear in the sequence.  Leading axes broadcast: grouped queries need no copies of k and v.
    Source: Rabe and Staats 2021, Self-attention Does Not Need O(n^2) Memory; Dao et al. 2022, FlashAttention.

    >>> import tinygrad_attn as ta
    >>> ta.fused_attention(ta.ones((1, 2)), ta.ones((3, 2)), ta.ones((3, 5))).shape
    (1, 5)
    """
    q, k, v = tensors("fused_attention", q, k, v)
    shape = scores_shape(q, k)
    keep, offset = checked(mask, shape, q._data), causal_offset(causal, *shape[-2:])
    pattern = pattern_of(shape, dropout, q._data)
    arguments = (q, k, v, bias_of(bias, shape), keep, offset, scale_of(scale, q.shape[-1]), pattern)
    out = fused(*arguments)
    if current().watcher is not None:
        _fill_watched(out, arguments)
    return out


def _fill_watched(out: Tensor, arguments: tuple[Any, ...]) -> None:
    """Run the reference beside the fused node on copies without history, so that its named intermediates
    are seen, and hand it the gradient that reaches the fused output, so that theirs are too."""
    if out._node is None or getattr(current().watcher, "values_only", False):
        with no_grad():
            attend(*arguments)
        return
    copies: list[Any] = [Tensor(x, requires_grad=True) if isinstance(x, Traced) else x for x in arguments[:4]]
    with enable_grad():
        shadow, _ = attend(*copies, *arguments[4:])

    def pass_on(gradient: Tensor) -> None:
        shadow.backward(gradient.detach(), retain_graph=True)

    out.register_hook(pass_on)
