"""affine, x W + b: fused for training, with its reference in primitives beside it.

One node instead of two, b is added where the product already lies, and dL/db is a product with a row of ones."""

from __future__ import annotations

from ..arrays import Array, module_of
from ..operation import op
from .matmul import _rows, matmul


def affine_reference(x: Array, W: Array, b: Array) -> Array:
    """affine in primitives."""
    return matmul(x, W) + b


def _affine_vjp(g: Array, needs: tuple[bool, ...], x: Array, W: Array) -> list[Array | None]:
    """dL/dx = g W^T,  dL/dW = x^T g,  dL/db = sum of g's rows."""
    g_rows, x_rows = _rows(g), _rows(x)
    return [
        (g_rows @ W.T).reshape(x.shape) if needs[0] else None,
        x_rows.T @ g_rows if needs[1] else None,
        module_of(g).ones(len(g_rows), dtype=g.dtype) @ g_rows if needs[2] else None,
    ]


@op(joint=_affine_vjp, traced=("x", "W", "b"), reference=affine_reference)
def affine(x: Array, W: Array, b: Array) -> Array:
    """x W + b: x (..., n), W (n, m), b (m,) -> (..., m).

    Errors: ValueError for other shapes.

    >>> import numpy as np
    >>> affine(np.ones((2, 3)), np.ones((3, 4)), np.ones(4)).shape
    (2, 4)
    """
    if W.ndim != 2 or b.shape != W.shape[1:]:
        raise ValueError("expected W (n, m) and b (m,)")
    out = matmul(x, W)
    out += b
    return out
