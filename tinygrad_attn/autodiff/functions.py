"""The public functions: each is an operation of ops/ that also takes bare arrays, lists and numbers
and gives a Tensor.  (Inside rules the operations themselves are used, which leave arrays arrays.)"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec

from .arrays import device_of
from .graph import Traced
from .ops import activation, choice, elementwise, index, loss, mask, reduce, shape
from .ops import matmul as matmul_
from .ops import norm as norm_
from .ops import softmax as softmax_
from .tensor import Tensor

P = ParamSpec("P")


def _public(operation: Callable[P, Any]) -> Callable[P, Tensor]:
    """`operation` with its first differentiable argument made a Tensor where none of them is one."""
    made = getattr(operation, "op", None)
    names = tuple(inspect.signature(operation).parameters)
    traced = made.traced if made is not None else (0,)  # split and dropout are made of operations

    @functools.wraps(operation)
    def call(*args: Any, **kwargs: Any) -> Any:
        for i in traced:
            if isinstance(args[i] if i < len(args) else kwargs.get(names[i]), Traced):
                return operation(*args, **kwargs)
        given = [args[i] if i < len(args) else kwargs.get(names[i]) for i in traced]
        first = traced[next((n for n, x in enumerate(given) if hasattr(x, "dtype")), 0)]  # a plain number never narrows
        if first < len(args):
            args = (*args[:first], Tensor(args[first]), *args[first + 1 :])
        elif names[first] in kwargs:
            kwargs[names[first]] = Tensor(kwargs[names[first]])
        return operation(*args, **kwargs)

    return call


def _public_sequence(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The same for operations whose first argument is a sequence of tensors."""

    @functools.wraps(operation)
    def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return operation(_tensors(tensors, operation.__name__), *args, **kwargs)

    return call


def _tensors(items: Iterable[Any], name: str) -> list[Any]:
    """One of them at least a Tensor, whose dtype the others take; no bare numbers."""
    items = list(items)
    if not items:
        raise ValueError(f"{name}: expected at least one tensor")
    like = next((x for x in items if isinstance(x, Traced)), None)
    if like is None:
        return [Tensor(x) for x in items]
    dtype, device = like._data.dtype, device_of(like._data)
    return [Tensor(x, dtype=dtype, device=device) if isinstance(x, (int, float)) else x for x in items]


def einsum(subscripts: str, *operands: Any) -> Tensor:
    if not isinstance(subscripts, str):
        raise TypeError(
            f'einsum: expected the letters first, as in einsum("ij,jk->ik", x, y), got {type(subscripts).__name__}'
        )
    return matmul_.einsum(_tensors(operands, "einsum"), subscripts)


einsum.__doc__ = matmul_.einsum.__doc__

add, sub, mul, div = (_public(o) for o in (elementwise.add, elementwise.sub, elementwise.mul, elementwise.div))
pow, neg, abs, sign = (_public(o) for o in (elementwise.pow, elementwise.neg, elementwise.abs, elementwise.sign))
exp, expm1, log, log1p = (_public(o) for o in (elementwise.exp, elementwise.expm1, elementwise.log, elementwise.log1p))
sqrt, sin, cos = (_public(o) for o in (elementwise.sqrt, elementwise.sin, elementwise.cos))
maximum, minimum, clip = (_public(o) for o in (choice.maximum, choice.minimum, choice.clip))
where, astype = _public(choice.where), _public(elementwise.astype)
tanh, sigmoid, relu, gelu = (
    _public(o) for o in (activation.tanh, activation.sigmoid, activation.relu, activation.gelu)
)

sum, mean, var, std = (_public(o) for o in (reduce.sum, reduce.mean, reduce.var, reduce.std))
max, min, prod, cumsum = (_public(o) for o in (reduce.max, reduce.min, reduce.prod, reduce.cumsum))
logsumexp, norm = _public(reduce.logsumexp), _public(reduce.norm)

reshape, transpose, swapaxes = (_public(o) for o in (shape.reshape, shape.transpose, shape.swapaxes))
squeeze, expand_dims, broadcast_to = (_public(o) for o in (shape.squeeze, shape.expand_dims, shape.broadcast_to))
flip, pad, unpad, split = (_public(o) for o in (shape.flip, shape.pad, shape.unpad, shape.split))
concatenate, stack = _public_sequence(shape.concatenate), _public_sequence(shape.stack)

getitem, add_at = _public(index.getitem), _public(index.add_at)
take_along_axis, scatter_add = _public(index.take_along_axis), _public(index.scatter_add)
embedding, embedding_sum = _public(index.embedding), _public(index.embedding_sum)

matmul = _public(matmul_.matmul)
softmax, log_softmax = _public(softmax_.softmax), _public(softmax_.log_softmax)
masked_fill, tril, triu, dropout = (_public(o) for o in (mask.masked_fill, mask.tril, mask.triu, mask.dropout))
layer_norm, cross_entropy = _public(norm_.layer_norm), _public(loss.cross_entropy)
