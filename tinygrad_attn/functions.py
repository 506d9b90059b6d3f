"""The public functions: each is an operation of ops/ that also takes bare arrays, lists and numbers
and gives a Tensor.  (Inside rules the operations themselves are used, which leave arrays arrays.)"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from .graph import Traced
from .ops import activation, elementwise, index, loss, mask, reduce, shape
from .ops import matmul as matmul_
from .ops import norm as norm_
from .ops import softmax as softmax_
from .tensor import Tensor

P = ParamSpec("P")


def _public(operation: Callable[P, Any], first: int = 0) -> Callable[P, Tensor]:
    """`operation` with its argument number `first` made a Tensor where no argument is one."""

    @functools.wraps(operation)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(a, Traced) for a in args) and not any(isinstance(a, Traced) for a in kwargs.values()):
            args = (*args[:first], Tensor(args[first]), *args[first + 1 :]) if len(args) > first else args
        return operation(*args, **kwargs)

    return call


def _public_sequence(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The same for operations whose first argument is a sequence of tensors."""

    @functools.wraps(operation)
    def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [t if isinstance(t, Traced) else Tensor(t) for t in tensors]
        if not tensors:
            raise ValueError(f"{operation.__name__}: expected at least one tensor")
        return operation(tensors, *args, **kwargs)

    return call


def einsum(subscripts: str, *operands: Any) -> Tensor:
    return matmul_.einsum([x if isinstance(x, Traced) else Tensor(x) for x in operands], subscripts)


einsum.__doc__ = matmul_.einsum.__doc__

add, sub, mul, div = (_public(o) for o in (elementwise.add, elementwise.sub, elementwise.mul, elementwise.div))
pow, neg, abs, sign = (_public(o) for o in (elementwise.pow, elementwise.neg, elementwise.abs, elementwise.sign))
exp, expm1, log, log1p = (_public(o) for o in (elementwise.exp, elementwise.expm1, elementwise.log, elementwise.log1p))
sqrt, sin, cos = (_public(o) for o in (elementwise.sqrt, elementwise.sin, elementwise.cos))
maximum, minimum, clip = (_public(o) for o in (elementwise.maximum, elementwise.minimum, elementwise.clip))
where, astype = _public(elementwise.where, 1), _public(elementwise.astype)
tanh, sigmoid, relu, gelu = (_public(o) for o in (activation.tanh, activation.sigmoid, activation.relu, activation.gelu))

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
