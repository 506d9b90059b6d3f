"""Fused attention: the same function as the explicit one, without the (n_q, n_k) array (fused_op.py).

Under a watcher the explicit form runs beside it and fills what is watched, while the fused gradient still
flows, so that a watched run equals an unwatched one bit for bit."""

from __future__ import annotations

from typing import Any

from ..autodiff.graph import Traced
from ..autodiff.mode import current, enable_grad, no_grad
from ..autodiff.tensor import Tensor
from .call import Call, checked
from .explicit import attend
from .fused_op import fused_attention as fused_attention_op
from .masks import Causal


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
    q, k, v, bias, call = checked("fused_attention", q, k, v, mask, causal, scale, bias, dropout)
    out = fused_attention_op(q, k, v, bias, call)
    if current().watcher is not None:
        _fill_watched(out, q, k, v, bias, call)
    return out


def _fill_watched(out: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Any, call: Call) -> None:
    """Run the explicit form beside the fused node on copies without history, so that its named intermediates
    are seen, and hand it the gradient that reaches the fused output, so that theirs are too."""
    if out._node is None or getattr(current().watcher, "values_only", False):
        with no_grad():
            attend(q, k, v, bias, call)
        return
    q, k, v, bias = (Tensor(x, requires_grad=True) if isinstance(x, Traced) else x for x in (q, k, v, bias))
    with enable_grad():
        shadow, _ = attend(q, k, v, bias, call)

    def pass_on(gradient: Tensor) -> None:
        shadow.backward(gradient.detach(), retain_graph=True)

    out.register_hook(pass_on)
