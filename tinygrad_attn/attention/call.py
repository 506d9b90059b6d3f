"""How attention was called: checked once, then carried as one record through every form and every kernel.

q, k, v, bias, call = checked("fused_attention", q, k, v, mask, causal, scale, bias, dropout)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..autodiff.arrays import Array, module_of
from ..autodiff.tensor import Tensor
from .checks import as_tensors, bias_of, scale_of, scores_shape
from .dropout import Dropout, dropout_of
from .masks import Causal, causal_offset, mask_of, visible


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """What every form of attention needs besides q, k, v and bias.

    scale    the factor on q k^T
    offset   key j is visible to query i only where j <= i + offset; None: not causal
    mask     booleans that broadcast to (..., n_q, n_k), True = may attend; None: every pair may
    dropout  gives the factors on any block of the weights, again and again the same; None: no dropout
    """

    scale: float
    offset: int | None = None
    mask: Array | None = None
    dropout: Dropout | None = None

    def copy(self) -> Call:
        """What a node keeps: the mask belongs to the caller, who may fill it anew before backward."""
        return self if self.mask is None else replace(self, mask=self.mask.copy())

    def visible(self, n_q: int, n_k: int, like: Array) -> Array | None:
        """Mask and causal triangle as one boolean array (..., n_q | 1, n_k | 1); None where every pair is visible."""
        return visible(self.mask, self.offset, slice(0, n_q), n_k, module_of(like))

    def __repr__(self) -> str:
        mask = None if self.mask is None else f"{self.mask.dtype} {tuple(self.mask.shape)}"
        given = {"offset": self.offset, "mask": mask, "dropout": self.dropout and self.dropout.rate}
        return f"scale {self.scale:.6g}" + "".join(f", {name} {x}" for name, x in given.items() if x is not None)


def checked(
    name: str,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    causal: Causal,
    scale: float | None,
    bias: Any,
    dropout: float = 0.0,
    same_width: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Any, Call]:
    """The arguments of the attention function `name`: q, k, v as tensors of fitting shapes, the bias, and the record.
    same_width: must q and k have one width, as a dot product needs?"""
    q, k, v = as_tensors(q, k, v)
    shape = scores_shape(name, q, k, v, same_width)
    offset, mask = causal_offset(causal, *shape[-2:]), mask_of(mask, shape, q._data)
    call = Call(scale_of(scale, q.shape[-1]), offset, mask, dropout_of(dropout, shape, q._data))
    return q, k, v, bias_of(bias, shape), call
