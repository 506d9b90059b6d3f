"""tinygrad_attn: where does the gradient go in attention?

A small reverse-mode autodiff framework on NumPy or CuPy.  Read it in this order: graph.py (what is
recorded), ops/ (the chain rule, one line per rule), walk.py (backward), tensor.py, attention/."""

import sys

from . import nn, optim
from .attention import (
    additive_attention,
    attention_block,
    causal_mask,
    check_mask,
    fused_attention,
    padding_mask,
    row_statistics,
    scaled_dot_product_attention,
)
from .autodiff import testing
from .autodiff.backward import Step, grad, steps
from .autodiff.create import arange, from_dlpack, ones, randn, zeros
from .autodiff.derivatives import hvp, jacobian, jvp
from .autodiff.functions import (
    abs,
    add,
    add_at,
    astype,
    broadcast_to,
    clip,
    concatenate,
    cos,
    cross_entropy,
    cumsum,
    div,
    dropout,
    einsum,
    embedding,
    embedding_sum,
    exp,
    expand_dims,
    expm1,
    flip,
    gelu,
    getitem,
    layer_norm,
    log,
    log1p,
    log_softmax,
    logsumexp,
    masked_fill,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    mul,
    neg,
    norm,
    pad,
    pow,
    prod,
    relu,
    reshape,
    scatter_add,
    sigmoid,
    sign,
    sin,
    softmax,
    split,
    sqrt,
    squeeze,
    stack,
    std,
    sub,
    sum,
    swapaxes,
    take_along_axis,
    tanh,
    transpose,
    tril,
    triu,
    unpad,
    var,
    where,
)
from .autodiff.mode import enable_grad, no_grad, scope
from .autodiff.operation import op
from .autodiff.random import manual_seed
from .autodiff.tensor import Tensor
from .moved import OldPaths
from .nn.module import Module

__version__ = "0.1.0"

sys.meta_path.insert(0, OldPaths())


def __getattr__(name: str) -> object:
    """The probe is loaded when it is first asked for: a plain import stays a plain import."""
    if name == "probe":
        from importlib import import_module

        return import_module(f"{__name__}.probe")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
