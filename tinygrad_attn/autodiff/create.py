"""Making tensors: zeros, ones, normal numbers, a range, and the memory of somebody else's array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtypes import DEFAULT_DTYPE
from .random import generator
from .tensor import Tensor, checked_dtype, wrap


def zeros(
    shape: int | Sequence[int], *, requires_grad: bool = False, dtype: Any = DEFAULT_DTYPE, device: str = "cpu"
) -> Tensor:
    """A tensor of zeros.

    >>> zeros((2, 3)).shape
    (2, 3)
    """
    return Tensor(np.zeros(shape, dtype), requires_grad, device=device)


def ones(
    shape: int | Sequence[int], *, requires_grad: bool = False, dtype: Any = DEFAULT_DTYPE, device: str = "cpu"
) -> Tensor:
    """A tensor of ones.

    >>> ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    return Tensor(np.ones(shape, dtype), requires_grad, device=device)


def randn(*shape: Any, requires_grad: bool = False, dtype: Any = DEFAULT_DTYPE, device: str = "cpu") -> Tensor:
    """Independent N(0, 1) numbers from the framework's generator (see ``manual_seed``).

    >>> randn(2, 3).shape == randn((2, 3)).shape == (2, 3)
    True
    """
    size = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return Tensor(generator().standard_normal(size), requires_grad, dtype=dtype, device=device)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    requires_grad: bool = False,
    dtype: Any = None,
    device: str = "cpu",
) -> Tensor:
    """start, start + step, ... up to `stop` (excluded); integers stay int64, floats become float32.

    >>> arange(3).numpy()
    array([0, 1, 2])
    """
    start, stop = (0, start) if stop is None else (start, stop)
    values = np.arange(start, stop, step)
    return Tensor(
        values, requires_grad, dtype=dtype or (DEFAULT_DTYPE if values.dtype.kind == "f" else None), device=device
    )


def from_dlpack(array: Any) -> Tensor:
    """A Tensor that shares the memory of `array` (NumPy, CuPy, PyTorch, JAX...): edits show on both sides.
    An edit on the other side between forward and backward goes unnoticed, and the gradient is wrong.

    Errors: TypeError for what has no DLPack protocol, or holds other than real numbers.

    >>> shared = np.ones(2); t = from_dlpack(shared); shared[0] = 5.0; t.numpy()
    array([5., 1.])
    """
    if not hasattr(array, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack: expected an array with the DLPack protocol, got {type(array).__name__}; "
            "write ta.Tensor(data)"
        )
    kind = array.__dlpack_device__()[0]
    if kind == 1:  # kDLCPU
        return wrap(checked_dtype(np.from_dlpack(array)))
    import cupy

    return wrap(checked_dtype(cupy.from_dlpack(array)))
