"""layer_norm: fused for training, with its reference in primitives beside it."""

from __future__ import annotations

import math

from ..arrays import Array, module_of
from ..dtypes import narrowed, widened
from ..operation import op
from .elementwise import sqrt
from .reduce import mean
from .softmax import has_axis


def layer_norm_reference(x: Array, gain: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """layer_norm in primitives."""
    centred = x - mean(x, -1, True)
    y = centred / sqrt(mean(centred * centred, -1, True) + eps)
    y = y if gain is None else y * gain
    return y if bias is None else y + bias


def _layer_norm_vjp(
    g: Array, needs: tuple[bool, ...], gain: Array | None, saved: tuple[Array, Array]
) -> list[Array | None]:
    """With h the normalised x, s = 1/std and a = g * gain:
    dL/dx = s (a - mean(a) - h mean(a h)),  dL/dgain = sum g h,  dL/dbias = sum g."""
    h, s = saved
    module, n, shape = module_of(g), g.shape[-1], g.shape
    g, h, s, dtype = (
        g.astype(h.dtype, copy=False).reshape(s.size, n),
        h.reshape(s.size, n),
        s.reshape(s.size, 1),
        g.dtype,
    )
    # Sums over rows and columns as products with a vector: 6 us where mean and einsum take 18 to 28 (1024 rows of 64).
    share = (
        module.full(n, 1.0 / max(n, 1), dtype=h.dtype) if gain is None else gain.astype(h.dtype, copy=False) / max(n, 1)
    )
    ones = module.ones(s.size, dtype=h.dtype)
    gh = g * h
    dgain = (ones @ gh).astype(dtype, copy=False) if needs[1] else None
    dbias = (ones @ g).astype(dtype, copy=False) if needs[2] else None
    if not needs[0]:
        return [None, dgain, dbias]
    mean_a, mean_ah = (g @ share)[:, None], (gh @ share)[:, None]
    module.multiply(h, mean_ah, out=gh)
    gh += mean_a
    dx = g.copy() if gain is None else g * gain
    dx -= gh
    dx *= s
    return [dx.astype(dtype, copy=False).reshape(shape), dgain, dbias]


@op(joint=_layer_norm_vjp, traced=("x", "gain", "bias"), reference=layer_norm_reference, saves=True)
def layer_norm(x: Array, gain: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """(x - mean) / sqrt(var + eps) * gain + bias over the last axis: x (..., n), gain and bias (n,).

    float16 takes its statistics in float32.  Source: Ba, Kiros, Hinton 2016, Layer Normalization, section 3.

    >>> import tinygrad_attn as ta
    >>> ta.layer_norm([[1.0, 2.0, 3.0]], eps=0.0).numpy().round(4)
    array([[-1.2247,  0.    ,  1.2247]], dtype=float32)
    """
    has_axis(x, -1)
    module, n = module_of(x), x.shape[-1]
    for name, value in (("gain", gain), ("bias", bias)):
        if value is not None and value.shape != (n,):
            raise ValueError(f"expected {name} of shape ({n},)")
    wide = widened(x).reshape(math.prod(x.shape[:-1]), n)
    share = module.full(n, 1.0 / max(n, 1), dtype=wide.dtype)  # (sums as products, as above)
    h = wide - (wide @ share)[:, None]
    h -= (h @ share)[
        :, None
    ]  # what that mean was rounded by: eps lets it grow 300 times where a row is nearly constant
    out = h * h
    s = (1.0 / module.sqrt(out @ share + eps)).astype(h.dtype, copy=False)[:, None]
    h *= s
    module.multiply(h, 1.0 if gain is None else gain, out=out)
    if bias is not None:
        out += bias
    return narrowed(out.reshape(x.shape), x), (h.reshape(x.shape), s)
