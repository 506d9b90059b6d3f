"""Four heads from twelve small matrices (64 x 16), or from one W_QKV (64 x 192): the same numbers, in less time.

    python tests/benchmarks/heads.py [--json FILE] [--quick]

Forward plus backward on (B, n) = (16, 64) tokens, float32; `peer` is head by head.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from compare import Report, alternate, arguments

import tinygrad_attn as ta

D_MODEL, HEADS = 64, 4
WIDTH = D_MODEL // HEADS


def runs() -> dict[str, Callable[[], ta.Tensor]]:
    """One function per way, on the same weights; each gives the output."""
    mha = ta.nn.MultiHeadAttention(D_MODEL, HEADS, 0, packed=True, sigma=D_MODEL**-0.5)
    W, x = mha.W_QKV.numpy(), ta.randn(16, 64, D_MODEL)
    small = [
        [ta.Tensor(W[:, part * D_MODEL + h * WIDTH :][:, :WIDTH], requires_grad=True) for part in range(3)]
        for h in range(HEADS)
    ]
    W_O = ta.Tensor(mha.W_O.numpy(), requires_grad=True)

    def together() -> ta.Tensor:
        mha.zero_grad()
        out = mha(x)
        (out * out).sum().backward()
        return out

    def apart() -> ta.Tensor:
        for matrix in [W_O, *(matrix for head in small for matrix in head)]:
            matrix.grad = None
        out = ta.concatenate([ta.fused_attention(*(x @ matrix for matrix in head)) for head in small], axis=-1) @ W_O
        (out * out).sum().backward()
        return out

    return {"together": together, "apart": apart}


if __name__ == "__main__":
    asked = arguments(__doc__)
    ways = runs()
    np.testing.assert_allclose(ways["together"]().numpy(), ways["apart"]().numpy(), rtol=1e-4, atol=1e-5)
    seconds = alternate(ways, 5 if asked.quick else 60)
    report = Report()
    report.row("4 heads", seconds["together"], seconds["apart"], 1.0)
    report.finish(asked.json)
