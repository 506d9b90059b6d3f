"""What recording costs: x*w+w chains on small arrays, forward plus backward, microseconds per operation.

    python tests/benchmarks/overhead.py [--json FILE] [--quick]

At 4x4 the arithmetic is nearly free (NumPy's x*w takes 0.33 us), so this is the price of a recorded node,
forward and backward; at 64x64 the arithmetic has its share.  All with their default settings; every run
records the chain anew and gets the gradients of both x and w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from compare import Report, Run, alternate, arguments, peer

import tinygrad_attn as ta

LINKS = 25  # multiplications, and as many additions
GOALS = {4: {"torch": 1.5, "autograd": 4.0, "mygrad": 3.0}, 64: {"torch": 1.0, "autograd": 3.0, "mygrad": 3.0}}


def chain(x: Any, w: Any) -> Any:
    y = x
    for _ in range(LINKS):
        y = y * w + w
    return y


def runs(n: int, peers: dict[str, Any]) -> dict[str, Run]:
    """One function per framework: the chain on n x n arrays and its backward."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((n, n)).astype(np.float32)
    w = draw.uniform(0.9, 1.0, (n, n)).astype(np.float32)  # so that w^50 stays far from the slow subnormals
    ones = np.ones((n, n), np.float32)
    return {name: make(module, x, w, ones) for name, make in MAKERS.items() if (module := peers.get(name))}


def _ours(module: Any, x: Any, w: Any, ones: Any) -> Run:
    x, w = module.Tensor(x, requires_grad=True), module.Tensor(w, requires_grad=True)

    def run() -> None:
        x.grad = w.grad = None
        chain(x, w).backward(ones)

    return run


def _torch(module: Any, x: Any, w: Any, ones: Any) -> Run:
    x, w = module.tensor(x, requires_grad=True), module.tensor(w, requires_grad=True)
    ones = module.tensor(ones)

    def run() -> None:
        x.grad = w.grad = None
        chain(x, w).backward(ones)

    return run


def _autograd(module: Any, x: Any, w: Any, ones: Any) -> Run:
    pull = module.make_vjp(chain, (0, 1))
    return lambda: pull(x, w)[0](ones)


def _mygrad(module: Any, x: Any, w: Any, ones: Any) -> Run:
    x, w = module.tensor(x), module.tensor(w)
    return lambda: chain(x, w).backward(ones)


MAKERS = {"ours": _ours, "torch": _torch, "autograd": _autograd, "mygrad": _mygrad}


def main() -> None:
    args = arguments(__doc__)
    peers = {"ours": ta, **{name: peer(name) for name in MAKERS if name != "ours"}}
    report = Report()
    for n, goals in GOALS.items():
        seconds = alternate(runs(n, peers), rounds=20 if args.quick else 400)
        for name, goal in goals.items():
            if name in seconds:
                report.row(f"{n}x{n} {name}", seconds["ours"] / (2 * LINKS), seconds[name] / (2 * LINKS), goal)
    report.finish(args.json)


if __name__ == "__main__":
    main()
