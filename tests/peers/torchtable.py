"""The rows of the table in PyTorch: the same operation, settings in PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from optable import Row
from torch import Tensor
from torch.nn import functional as F


def dims(axis: Any, keepdims: bool) -> dict[str, Any]:
    return {} if axis is None else {"dim": axis, "keepdim": keepdims}


def over_each(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """PyTorch reduces some things over one axis only: the axes one after another, the last one first."""

    def call(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        for a in sorted((a % x.ndim for a in axes), reverse=True):
            x = reduce(x, a, keepdims)
        return x

    return call


def flip(x: Tensor, axis: Any = None) -> Tensor:
    return x.flip(tuple(range(x.ndim)) if axis is None else axis)


def pad(x: Tensor, pad_width: Any, value: float = 0.0) -> Tensor:
    widths = [(pad_width, pad_width)] * x.ndim if isinstance(pad_width, int) else pad_width
    return F.pad(x, [n for pair in reversed(widths) for n in pair], value=value)


def expand_dims(x: Tensor, axis: Any) -> Tensor:
    for a in axis if isinstance(axis, tuple) else (axis,):
        x = x.unsqueeze(a)
    return x


def split(x: Tensor, parts: Any, axis: int = -1) -> list[Tensor]:
    return list(x.tensor_split(parts, axis))


def scatter_rows(x: Tensor, idx: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(shape, dtype=x.dtype).index_put((idx,), x, accumulate=True)


def take(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    shape = list(torch.broadcast_shapes([1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)], indices.shape))
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)  # gather knows no negative ones
    return x.gather(axis, indices.expand(shape))


def cross_entropy(z: Tensor, t: Tensor, ignore_index: int = -100, label_smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(
        z.reshape(-1, z.shape[-1]), t.reshape(-1), ignore_index=ignore_index, label_smoothing=label_smoothing
    )


def layer_norm(x: Tensor, gain: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


UNARY = ["neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "matmul"]

TORCH: dict[str, Callable[..., Any]] = {
    **{name: getattr(torch, name) for name in UNARY + BINARY},
    "clip": lambda x, low=None, high=None: x.clamp(low, high),
    "where": lambda x, y, c: torch.where(c, x, y),
    "astype": lambda x, dtype: x.to(getattr(torch, dtype)),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "sum": lambda x, axis=None, keepdims=False: x.sum(**dims(axis, keepdims)),
    "mean": lambda x, axis=None, keepdims=False: x.mean(**dims(axis, keepdims)),
    "var": lambda x, axis=None, keepdims=False, ddof=0: x.var(axis, correction=ddof, keepdim=keepdims),
    "std": lambda x, axis=None, keepdims=False, ddof=0: x.std(axis, correction=ddof, keepdim=keepdims),
    "max": lambda x, axis=None, keepdims=False: x.amax(tuple(range(x.ndim)) if axis is None else axis, keepdims),
    "min": lambda x, axis=None, keepdims=False: x.amin(tuple(range(x.ndim)) if axis is None else axis, keepdims),
    "prod": over_each(lambda x, a, keep: x.prod(a, keep)),
    "norm": lambda x, axis=None, keepdims=False: torch.linalg.vector_norm(x, dim=axis, keepdim=keepdims),
    "logsumexp": lambda x, axis=None, keepdims=False: x.logsumexp(
        tuple(range(x.ndim)) if axis is None else axis, keepdims
    ),
    "cumsum": lambda x, axis=-1: x.cumsum(axis),
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, axes=None: x.permute(tuple(range(x.ndim))[::-1] if axes is None else axes),
    "swapaxes": lambda x, axis1, axis2: x.swapaxes(axis1, axis2),
    "squeeze": lambda x, axis=None: x.squeeze() if axis is None else x.squeeze(axis),
    "expand_dims": expand_dims,
    "broadcast_to": lambda x, shape: x.broadcast_to(shape),
    "flip": flip,
    "pad": pad,
    "unpad": lambda x, pad_width: x[tuple(slice(a, n - b) for (a, b), n in zip(pad_width, x.shape))],
    "concatenate": lambda *xs, axis: torch.concatenate(xs, axis),
    "stack": lambda *xs, axis: torch.stack(xs, axis),
    "split": split,
    "einsum": lambda *xs, subscripts: torch.einsum(subscripts, *xs),
    "take_along_axis": take,
    "scatter_add": lambda x, v, i: x.scatter_add(-1, i, v),
    "add_at": scatter_rows,
    "embedding": lambda W, i: F.embedding(i, W),
    "embedding_sum": scatter_rows,
    "softmax": lambda x, axis: x.softmax(axis),
    "log_softmax": lambda x, axis: x.log_softmax(axis),
    "masked_fill": lambda x, m, value: torch.where(m, value, x),
    "tril": torch.tril,
    "triu": lambda x, k: x.triu(k),
    "layer_norm": layer_norm,
    "cross_entropy": cross_entropy,
}
# Written as an operator or an index, the row itself is PyTorch; this part of the language it lacks.
NOT_IN_TORCH = {"getitem[negative_step]", "getitem[array_none_step]"}


def in_torch(row: Row) -> Callable[..., Any]:
    """The function of PyTorch that a row compares with."""
    if row.op == "pow":
        return (lambda x: x**-2.0) if row.note == "negative_base" else row.call or torch.pow
    if row.op == "getitem":
        assert row.call is not None
        return row.call
    if row.op == "layer_norm" and row.note == "bias":
        return lambda x, b: layer_norm(x, torch.ones_like(b), b)  # its second order fails on a missing gain
    return lambda *xs: TORCH[row.op](*xs, **row.settings)
