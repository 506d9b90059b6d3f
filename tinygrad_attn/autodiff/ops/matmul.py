"""Matrix products, for every pair of ranks.

    out = x @ y        (..., n, k) @ (..., k, m) -> (..., n, m)
    dL/dx = g @ y^T    dL/dy = x^T @ g

A 1-D operand is a matrix whose missing axis has length 1; batch axes broadcast and are summed back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..arrays import Array, module_of
from ..dtypes import widened
from ..operation import op
from .shape import broadcast_to, expand_dims, reshape


def _mT(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _rows(x: Array) -> Array:
    """(..., n, k) as (batch * n, k).  (-1 would be ambiguous where k is 0.)"""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _left(g: Array, x_shape: tuple[int, ...], y: Array) -> Array:
    if len(y.shape) == 1:
        return expand_dims(g, -1) * y  #                        (..., n, 1) * (k,)
    if len(x_shape) == 1:
        return (y @ expand_dims(g, -1))[..., 0]  #              (..., k, m) @ (..., m, 1)
    return matmul(g, _mT(y))  #                                 (..., n, m) @ (..., m, k)


def _right(g: Array, x: Array, y_shape: tuple[int, ...]) -> Array:
    if len(x.shape) == 1:
        return g * x if len(y_shape) == 1 else expand_dims(x, -1) * expand_dims(g, -2)
    if len(y_shape) == 1:
        return (_mT(x) @ expand_dims(g, -1))[..., 0]  #         (..., k, n) @ (..., n, 1)
    if len(y_shape) == 2 and len(x.shape) > 2:  # one matrix for the whole batch: sum inside the product
        return _mT(_rows(x)) @ _rows(g)
    return matmul(_mT(x), g)  #                                 (..., k, n) @ (..., n, m)


@op(
    vjps={"x": lambda g, x_shape, y: _left(g, x_shape, y), "y": lambda g, x, y_shape: _right(g, x, y_shape)},
    broadcasts=True,
)
def matmul(x: Array, y: Array) -> Array:
    """The matrix product x @ y: (..., n, k) @ (..., k, m) -> (..., n, m); 1-D operands as in NumPy.

    Errors: ValueError when the inner lengths differ.

    >>> import tinygrad_attn as ta
    >>> ta.matmul(ta.ones((2, 3)), ta.ones((3, 4))).shape
    (2, 4)
    """
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError("expected at least 1-D operands; write * for a product with a number")
    inner = y.shape[0] if y.ndim == 1 else y.shape[-2]
    if x.shape[-1] != inner:
        hint = "; did you mean x @ y.mT?" if y.ndim > 1 and x.shape[-1] == y.shape[-1] else ""
        raise ValueError(f"expected equal inner lengths, {x.shape[-1]} against {inner}{hint}")
    if y.ndim == 2 and x.ndim > 2 and x.flags.c_contiguous:
        # one product of (batch * n, k) instead of `batch` small ones
        return (_rows(x) @ y).reshape(*x.shape[:-1], y.shape[-1])
    return x @ y


# ---------------------------------------------------------------------------- einsum


def _einsum_rule(g: Array, needs: tuple[bool, ...], operands: Sequence[Array], subscripts: str) -> list[Array | None]:
    """d/d(operand i) is again an einsum: g with all the other operands, onto operand i's letters."""
    letters, out = parsed(subscripts, [len(x.shape) for x in operands])
    found: list[Array | None] = []
    for i, needed in enumerate(needs):
        if not needed:
            found.append(None)
            continue
        others = [k for k in range(len(operands)) if k != i]
        seen = set(out).union(*[letters[k] for k in others])
        present = "".join(c for c in letters[i] if c in seen)  # the rest was only summed: broadcast back
        terms = ",".join([out, *[letters[k] for k in others]])
        part = einsum([g, *[operands[k] for k in others]], f"{terms}->{present}")
        sizes = iter(part.shape)
        part = reshape(part, tuple(next(sizes) if c in seen else 1 for c in letters[i]))
        stretched = tuple(k for k, n in enumerate(operands[i].shape) if n == 1 and part.shape[k] != 1)
        part = part.sum(axis=stretched, keepdims=True) if stretched else part  # a length 1 that was broadcast
        found.append(broadcast_to(part, tuple(operands[i].shape)))
    return found


@op(joint=_einsum_rule, variadic=True)
def einsum(operands: Sequence[Array], subscripts: str) -> Array:
    """A sum of products named by letters, as in NumPy; ``...`` stands for batch axes.

    Errors: ValueError for a letter twice in one operand (take its diagonal by indexing first).

    >>> import tinygrad_attn as ta
    >>> ta.einsum("ij,jk->ik", ta.ones((2, 3)), ta.ones((3, 4))).shape
    (2, 4)
    """
    letters, out = parsed(subscripts, [x.ndim for x in operands])
    halves = operands[0].dtype.char == "e"  # float16 counts in float32
    values = [widened(x) for x in operands] if halves else operands
    product = module_of(operands[0]).einsum(f"{','.join(letters)}->{out}", *values, optimize=True)
    return product.astype(operands[0].dtype) if halves else product


def parsed(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with ``...`` spelled out in capitals from the end."""
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"{subscripts!r} names {len(terms)} operands, got {len(ndims)}")
    unused = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in subscripts]
    spelled, longest = [], ""
    for term, ndim in zip(terms, ndims):
        batch = ndim - len(term.replace("...", ""))
        if batch < 0 or (batch and "..." not in term):
            raise ValueError(f"{term!r} has {len(term.replace('...', ''))} letters for an operand of {ndim} axes")
        ellipsis = "".join(unused[:batch][::-1])
        longest = ellipsis if len(ellipsis) > len(longest) else longest
        full = term.replace("...", ellipsis)
        if len(set(full)) < len(full):
            raise ValueError(f"a letter stands twice in {term!r}; take the diagonal by indexing first")
        spelled.append(full)
    if not arrow:
        everything = "".join(spelled)
        out = longest + "".join(sorted(c for c in set(everything) - set(longest) if everything.count(c) == 1))
    return spelled, out.replace("...", longest)
