"""Gradients of parameters against central differences along one random direction each.

    <dL/dw, u>   against   (f(w + h u) - f(w - h u)) / 2h

Two runs of f check a whole parameter: any wrong entry changes the product with a random direction u."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..autodiff.arrays import module_of, to_host
from ..autodiff.tensor import Tensor
from ..show.numbers import number
from ..show.table import Column, Table


def directional_check(
    f: Callable[[], Tensor], params: Mapping[str, Tensor], gradients: Mapping[str, Any], seed: int = 0
) -> Table:
    """A row per gradient, the largest relative error first.  All `params` are float64 meanwhile, so that f computes in
    float64; afterwards they are as before."""
    rng = np.random.default_rng(seed)
    with _in_float64(params.values()):
        rows = [{"name": name, **_compared(f, params[name], to_host(g), rng)} for name, g in gradients.items()]
    columns = [
        Column("name", "parameter", left=True),
        Column("ours", "<dL/dw, u>", lambda value: number(value, 6)),
        Column("measured", "difference", lambda value: number(value, 6)),
        Column("error", "relative\nerror", number),
    ]
    return Table("Gradients against central differences", columns, sorted(rows, key=lambda row: -row["error"]))


@contextmanager
def _in_float64(tensors: Iterable[Tensor]) -> Iterator[None]:
    before = [(tensor, tensor._data) for tensor in tensors]
    try:
        for tensor, data in before:
            tensor._data = data.astype(np.float64)
        yield
    finally:
        for tensor, data in before:
            tensor._data = data


def _compared(
    f: Callable[[], Tensor], tensor: Tensor, gradient: np.ndarray, rng: np.random.Generator
) -> dict[str, float]:
    start, gradient = tensor._data, gradient.astype(np.float64)
    u = rng.standard_normal(tensor.shape)
    u /= np.linalg.norm(u) or 1.0
    h = 1e-5 * max(1.0, float(np.linalg.norm(to_host(start))))
    ends = []
    for sign in (1, -1):
        tensor._data = start + module_of(start).asarray(sign * h * u)
        ends.append(float(f().item()))
    tensor._data = start
    measured, ours = (ends[0] - ends[1]) / (2 * h), float((gradient * u).sum())
    size = max(abs(measured), 1e-3 * float(np.linalg.norm(gradient)), 1e-12)
    return {"ours": ours, "measured": measured, "error": abs(ours - measured) / size}
