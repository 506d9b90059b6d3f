"""Time and memory as counts: what a computation does and keeps, read from its recorded graph.

Clocks differ from run to run; these numbers do not.  Operations: 2 m n d for a product (m, d) @ (d, n), 4 for each
entry of a softmax (largest, exp, sum, divide), 1 for each entry of anything else, 0 for views.  Bytes: the arrays that
backward will need, inputs among them, each once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..attention.call import Call
from ..autodiff.graph import LEAF, Node
from ..autodiff.tensor import Tensor


class Count(NamedTuple):
    operations: int
    bytes: int
    products: int  # matrix products


def count(out: Tensor) -> Count:
    """The counts of everything that `out` was made with, from the leaves on; before backward has released it.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor(np.ones((2, 3)), requires_grad=True)
    >>> count(ta.exp(x @ x.T))  # 2 * 2*2*3 for the product, 4 for exp; x (6 float64) and exp's result (4) are kept
    Count(operations=28, bytes=80, products=1)
    """
    if out._node is None:
        raise ValueError("count: this tensor has no graph; give it inputs with requires_grad=True")
    operations = products = 0
    kept = {}
    for node in _nodes(out._node):
        if node.op is LEAF:
            continue
        operations += _operations(node)
        products += node.op.name == "matmul"
        for array in _arrays(node.residuals):
            owner = _owner(array)
            kept[id(owner)] = owner
    return Count(operations, sum(array.nbytes for array in kept.values()), products)


def _operations(node: Node) -> int:
    size = math.prod(node.shape)
    if node.shares:
        return 0
    if node.op.name == "matmul":
        first = next(p for p in (node.parents or ()) if p is not None)
        inner = first.shape[-1] if first is (node.parents or ())[0] else first.shape[-2 if len(first.shape) > 1 else 0]
        return 2 * size * inner
    return 4 * size if node.op.name == "softmax" else size


def _nodes(root: Node) -> Iterator[Node]:
    found, todo = {root}, [root]
    for node in todo:  # grows while it is read
        yield node
        for parent in node.parents or ():
            if parent is not None and parent not in found:
                found.add(parent)
                todo.append(parent)


def _arrays(kept: Any) -> Iterator[np.ndarray]:
    if isinstance(kept, np.ndarray):
        yield kept
    elif isinstance(kept, (dict, Call, tuple, list)):
        for item in kept.values() if isinstance(kept, dict) else [kept.mask] if isinstance(kept, Call) else kept:
            yield from _arrays(item)


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def milliseconds(work: Callable[[], object]) -> float:
    """The clock of one call."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def fitted_exponent(sizes: Any, counts: Any) -> float:
    """The slope of log(counts) over log(sizes): 2 for a cost that grows with the square.

    >>> round(fitted_exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(counts, float)), 1)[0])
