"""Attention forward plus backward, float32: ours, fused and explicit, against PyTorch's fused and explicit.

    python tests/benchmarks/attention.py [--json FILE] [--quick]

Rows named `fused` compare fused with fused, rows named `explicit` the forms with every intermediate kept.
All four take turns in one process.  At the end: the peak memory of causal (1, 8, 8192, 64), forward plus
backward, beyond the inputs (goal: under 300 MB; the (n, n) arrays of one head alone would take 268).
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
from compare import Report, Run, alternate, arguments, peer

import tinygrad_attn as ta

Shape = tuple[int, int, int, int]  # B, H, T, d
SHAPES: dict[Shape, float] = {
    (1, 4, 8, 16): 2.0,
    (8, 4, 32, 16): 1.0,
    (8, 4, 128, 16): 0.85,
    (4, 8, 256, 64): 0.85,
    (1, 8, 1024, 64): 0.85,
    (1, 8, 2048, 64): 0.85,
}  # the goal of fused against fused
EXPLICIT_GOAL = 0.5  # where every intermediate stays visible, half of PyTorch's speed will do


def ours(shape: Shape, causal: bool, fused: bool) -> Run:
    q, k, v, g = _draw(shape)
    leaves = [ta.Tensor(x, requires_grad=True) for x in (q, k, v)]

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        if fused:
            out = ta.fused_attention(*leaves, causal=causal)
        else:
            out, _ = ta.scaled_dot_product_attention(*leaves, causal=causal)
        out.backward(g)

    return run


def theirs(torch: Any, shape: Shape, causal: bool, fused: bool) -> Run:
    q, k, v, g = (torch.tensor(x) for x in _draw(shape))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    hidden = ~torch.ones(shape[2], shape[2], dtype=torch.bool).tril()

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        if fused:
            out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        else:
            scores = leaves[0] @ leaves[1].transpose(-2, -1) / shape[-1] ** 0.5
            out = torch.softmax(scores.masked_fill(hidden, -torch.inf) if causal else scores, -1) @ leaves[2]
        out.backward(g)

    return run


def _draw(shape: Shape) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, dtype=np.float32) for _ in range(4)]


def peak_memory(shape: Shape) -> float:
    """Megabytes beyond q, k, v and the gradient, at the worst moment of one forward and backward."""
    run = ours(shape, causal=True, fused=True)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    options = arguments(__doc__)
    torch = peer("torch")
    report = Report()
    for shape, goal in list(SHAPES.items())[: 2 if options.quick else None]:
        small = shape[0] * shape[1] * shape[2] < 2000
        rounds, calls = (5, 5) if options.quick else (31, 20) if small else (11, 1)
        for causal in (True, False):
            if torch is None:
                continue
            label = f"{','.join(map(str, shape))} {'causal' if causal else 'full'}"
            runs = {
                "ours fused": ours(shape, causal, fused=True),
                "torch fused": theirs(torch, shape, causal, fused=True),
                "ours explicit": ours(shape, causal, fused=False),
                "torch explicit": theirs(torch, shape, causal, fused=False),
            }
            seconds = alternate(runs, rounds, calls)
            report.row(f"fused {label}", seconds["ours fused"], seconds["torch fused"], goal)
            report.row(f"explicit {label}", seconds["ours explicit"], seconds["torch explicit"], EXPLICIT_GOAL)
    if not options.quick:
        print(
            f"peak memory of causal (1, 8, 8192, 64) beyond the inputs: {peak_memory((1, 8, 8192, 64)):.0f} MB (goal 300)"
        )
    report.finish(options.json)


if __name__ == "__main__":
    main()
