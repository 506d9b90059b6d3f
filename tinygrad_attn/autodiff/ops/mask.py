"""Hiding entries: masks, triangles, dropout.  The gradient of a hidden entry is exactly 0."""

from __future__ import annotations

from ..arrays import Array, module_of
from ..dtypes import plain
from ..operation import op
from ..random import kept, next_key
from .choice import where


@op(vjps={"x": lambda g, mask: where(mask, 0.0, g)}, broadcasts=True)
def masked_fill(x: Array, mask: Array, value: float) -> Array:
    """`value` where mask is True, x elsewhere: the opposite of an attention mask, so
    ``masked_fill(scores, ~keep, -inf)``.

    Errors: TypeError when the mask is not boolean (or 0/1 integers).

    >>> import tinygrad_attn as ta
    >>> ta.masked_fill([1.0, 2.0], [True, False], 0.0).numpy()
    array([0., 2.], dtype=float32)
    """
    module = module_of(x)
    mask = module.asarray(mask)
    if mask.dtype.kind not in "biu":
        raise TypeError(f"expected a boolean mask, got {mask.dtype}; write mask != 0")
    return module.where(mask.astype(bool), module.asarray(value, dtype=x.dtype), x)


@op(vjps={"x": lambda g, k: tril(g, k)})
def tril(x: Array, k: int = 0) -> Array:
    """The lower triangle of the last two axes, zeros above diagonal k.

    >>> import tinygrad_attn as ta
    >>> ta.tril(ta.ones((2, 2))).numpy()
    array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return module_of(x).tril(_matrix(x), k)


@op(vjps={"x": lambda g, k: triu(g, k)})
def triu(x: Array, k: int = 0) -> Array:
    """The upper triangle of the last two axes, zeros below diagonal k.

    >>> import tinygrad_attn as ta
    >>> ta.triu(ta.ones((2, 2))).numpy()
    array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return module_of(x).triu(_matrix(x), k)


def _matrix(x: Array) -> Array:
    if x.ndim < 2:
        raise ValueError("expected at least 2 axes (NumPy would make a matrix of the row)")
    return x


def dropout(x: Array, rate: float, training: bool = True) -> Array:
    """x with each entry set to 0 with probability `rate`, the others divided by 1 - rate.

    The pattern is drawn from the framework's seeded generator, on the CPU.  rate 0 or training=False:
    x itself; rate 1: zeros.
    Source: Srivastava et al. 2014, Dropout, section 10 (the inverted form).

    >>> import tinygrad_attn as ta
    >>> ta.dropout(ta.ones(4), 1.0).numpy()
    array([0., 0., 0., 0.], dtype=float32)
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"dropout: expected a rate between 0 and 1, got {rate}")
    if not training or rate == 0.0:
        return x
    return x * dropout_factors(plain(x), rate)


def dropout_factors(x: Array, rate: float) -> Array:
    """What dropout multiplies an array like x by: 0, or 1/(1 - rate)."""
    key, first = next_key()
    return factors(kept(key, first, tuple(x.shape), rate), rate, x)


def factors(kept: Array, rate: float, like: Array) -> Array:
    """1/(1 - rate) where kept, else 0, in `like`'s dtype on its device; rate 1 is all 0."""
    return module_of(like).asarray(kept.astype(like.dtype) * (1.0 / (1.0 - rate) if rate < 1.0 else 0.0))
