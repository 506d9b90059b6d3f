"""Fused attention as one operation: one node in the graph.

Forward keeps q, k, v, out and what the kernels ask to keep; backward recomputes the weights block by block
(kernels/).  Its reference is the explicit attention: gradients of gradients go through it."""

from __future__ import annotations

import numpy as np

from ..autodiff.arrays import Array
from ..autodiff.operation import op
from ..autodiff.tensor import Tensor
from . import kernels
from .call import Call
from .explicit import attend


def _reference(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, call: Call) -> Tensor:
    return attend(q, k, v, bias, call)[0]


@np.errstate(under="ignore")
def _vjp(
    g: Array, needs: kernels.Needs, q: Array, k: Array, v: Array, bias: Array, call: Call, out: Array, saved: Array
) -> list[Array | None]:
    return kernels.backward(g, q, k, v, bias, call, out, saved, needs)


@op(joint=_vjp, traced=("q", "k", "v", "bias"), reference=_reference, saves=True)
@np.errstate(under="ignore")  # e^-1000 is the 0 that is meant
def fused_attention(q: Array, k: Array, v: Array, bias: Array | None, call: Call) -> tuple[Array, Array | None]:
    """softmax(scale q k^T + bias) v over visible keys, by the kernels.

    >>> import numpy as np
    >>> fused_attention(np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 5)), None, Call(scale=1.0)).shape
    (1, 5)
    """
    return kernels.forward(q, k, v, bias, call)
