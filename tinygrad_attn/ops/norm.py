"""layer_norm: fused for training, with its reference in primitives beside it."""

from __future__ import annotations

import numpy as np

from ..backend import Array, module_of
from ..operands import narrowed, widened
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


def _layer_norm_vjp(g: Array, needs: tuple[bool, ...], gain: Array | None, saved: tuple[Array, Array]) -> list[Array | None]:
    """With h the normalised x, s = 1/std and a = g * gain:
    dL/dx = s (a - mean(a) - h mean(a h)),  dL/dgain = sum g h,  dL/dbias = sum g."""
    h, s = saved
    module, n = module_of(g), g.shape[-1]
    g_rows, h_rows = g.reshape(s.size, n), h.reshape(s.size, n)
    found: list[Array | None] = [None, None, None]
    if needs[0]:
        a = g if gain is None else g * gain
        a = a.astype(h.dtype, copy=False)
        mean_a = a.mean(axis=-1, keepdims=True)
        mean_ah = module.einsum("...i,...i->...", a, h)[..., None] / n
        dx = h * -mean_ah
        dx += a
        dx -= mean_a
        dx *= s
        found[0] = dx.astype(g.dtype, copy=False)
    if needs[1]:
        found[1] = module.einsum("ri,ri->i", g_rows, h_rows).astype(g.dtype, copy=False)
    if needs[2]:
        found[2] = g_rows.sum(axis=0)
    return found


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
    wide = widened(x)
    h = wide - wide.sum(axis=-1, keepdims=True) / max(n, 1)
    variance = module.einsum("...i,...i->...", h, h)[..., None] / max(n, 1)
    s = 1.0 / module.sqrt(variance + eps)
    s = s.astype(h.dtype, copy=False)
    h *= s
    out = h if gain is None else h * gain
    if bias is not None:
        out = out + bias if gain is None else np.add(out, bias, out=out) if module is np else out + bias
    elif out is h:
        out = h.copy()
    return narrowed(out, x), (h, s)
