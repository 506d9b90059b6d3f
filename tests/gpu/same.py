"""Does the device give what NumPy gives?  Values, gradients, gradients of gradients, weights, a training run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from optable import ROWS, Row
from row_derivatives import derivatives
from small_model import sequences, stepper

import tinygrad_attn as ta


def error(ours: ta.Tensor, numpys: ta.Tensor, device: str) -> float:
    """The largest difference, relative to the largest entry; raises for another device, dtype or shape."""
    expected = (device, numpys.dtype, numpys.shape)
    if (ours.device, ours.dtype, ours.shape) != expected:
        raise AssertionError(f"expected {expected}, got {(ours.device, ours.dtype, ours.shape)}")
    a, b = ours.numpy().astype(np.float64), numpys.numpy().astype(np.float64)
    if not b.size:
        return 0.0
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        raise AssertionError("NaN or inf at different places")
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))


# ---------------------------------------------------------------------------- operations


def mixes(row: Row) -> bool:
    """Rows that use a NumPy array as an operand: an error on a device, by design."""
    return row.note == "negative_base"


def operations(device: str, quick: bool, dtype: Any = np.float64, tolerance: float = 1e-12) -> dict[str, Any]:
    rows = [row for row in ROWS if not mixes(row)][:: 5 if quick else 1]
    worst, where, wrong = 0.0, "", []
    for row in rows:
        try:
            pairs = list(zip(derivatives(row, device, dtype), derivatives(row, "cpu", dtype), strict=True))
            largest = max(error(x, y, device) for x, y in pairs)
        except Exception as problem:
            wrong.append(f"{row}: {type(problem).__name__}: {str(problem).splitlines()[0]}")
            continue
        if largest > tolerance:
            wrong.append(f"{row}: off by {largest:.1e}")
        if largest > worst:
            worst, where = largest, f" ({row})"
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} of {len(rows)} rows are wrong", *wrong[:20]]))
    return {"figure": f"{len(rows)} rows, largest relative difference {worst:.1e}{where}", "largest": worst}


def operations_float32(device: str, quick: bool) -> dict[str, Any]:
    return operations(device, quick, np.float32, 1e-5)


# ---------------------------------------------------------------------------- attention

SETTINGS: list[dict[str, Any]] = [
    {}, {"causal": True}, {"scale": 1.0}, {"mask": True}, {"bias": True}, {"dropout": 0.3},
    {"mask": True, "causal": True, "bias": True, "dropout": 0.3},
]  # fmt: skip


def attention(device: str, quick: bool) -> dict[str, Any]:
    """Explicit and fused attention, outputs and gradients."""
    n, worst = (9 if quick else 65), 0.0
    for name in ("scaled_dot_product_attention", "fused_attention"):
        for dtype, tolerance in ((np.float64, 1e-11), (np.float32, 1e-4), (np.float16, 3e-2)):
            for settings in SETTINGS:
                found = [_attended(name, place, settings, n, dtype) for place in (device, "cpu")]
                largest = max(error(x, y, device) for x, y in zip(*found, strict=True))
                if not largest <= tolerance:
                    raise AssertionError(f"{name}, {np.dtype(dtype)}, {settings}: off by {largest:.1e}")
                worst = max(worst, largest if dtype is np.float32 else 0.0)
    return {
        "figure": f"{2 * 3 * len(SETTINGS)} settings, largest relative difference in float32 {worst:.1e}",
        "largest": worst,
    }


def _attended(name: str, device: str, settings: dict[str, Any], n: int, dtype: Any) -> list[ta.Tensor]:
    rng = np.random.default_rng(0)
    q, k, v = (ta.Tensor(rng.standard_normal((2, 3, n, 8)), True, dtype=dtype, device=device) for _ in range(3))
    weights = ta.Tensor(rng.standard_normal((2, 3, n, 8)), dtype=dtype, device=device)
    more = dict(settings)
    if "mask" in more:
        keep = rng.random((2, 1, n, n)) < 0.7
        keep[:, :, 1] = False  # a query that sees nothing
        more["mask"] = ta.Tensor(keep, device=device)
    if "bias" in more:
        more["bias"] = ta.Tensor(rng.standard_normal((3, n, n)), dtype=dtype, device=device)
    ta.manual_seed(0)
    out = getattr(ta, name)(q, k, v, **more)
    outs = list(out) if isinstance(out, tuple) else [out]
    (outs[0] * weights).sum().backward()
    return [*outs, *[x.grad for x in (q, k, v) if x.grad is not None]]


# ---------------------------------------------------------------------------- training


def model_on(device: str, quick: bool, **settings: Any) -> ta.nn.MiniGPT:
    d_model, layers = (16, 2) if quick else (64, 4)
    return ta.nn.MiniGPT(17, 16 if quick else 64, d_model, 4, layers, seed=0, **settings).to(device)


def training(device: str, quick: bool, **settings: Any) -> Any:
    """A step function on a fresh model, data already there."""
    model = model_on(device, quick, **settings)
    data = [ta.Tensor(a, device=device) for a in sequences(17, 16, model.context)]
    return stepper(model, *data, ta.optim.AdamW(model.parameters(), lr=3e-3))


def weights(device: str, quick: bool) -> dict[str, Any]:
    """The same seed gives the same numbers, bit for bit: they are drawn on the CPU."""
    ours, numpys = model_on(device, quick).state_dict(), model_on("cpu", quick).state_dict()
    different = [name for name in numpys if not np.array_equal(ours[name], numpys[name])]
    if different or ours.keys() != numpys.keys():
        raise AssertionError(f"different weights: {', '.join(different)}")
    return {"figure": f"{len(ours)} arrays, all equal"}


def loss_curve(device: str, quick: bool) -> dict[str, Any]:
    """The same run, dropout included: rounding differs, the curve does not."""
    steps, curves = (8 if quick else 60), []
    for place in (device, "cpu"):
        ta.manual_seed(0)
        step = training(place, quick, dropout=0.1)
        losses = [step() for _ in range(steps)]
        curves.append([float(loss) for loss in losses])
    ours, numpys = np.array(curves)
    largest = float(np.abs(ours / numpys - 1).max())
    if not ours[-1] < ours[0] or not largest < 0.02:
        both = f"loss {ours[0]:.3f} to {ours[-1]:.3f}, NumPy's {numpys[0]:.3f} to {numpys[-1]:.3f}"
        raise AssertionError(f"{both}, at most {largest:.1e} apart")
    figure = f"{steps} steps, loss {ours[0]:.3f} to {ours[-1]:.3f}, at most {largest:.1e} from NumPy's"
    return {"figure": figure, "largest": largest, "losses": curves[0]}


@contextlib.contextmanager
def forbidding_waits(device: str) -> Iterator[None]:
    """Waiting for the device raises inside."""
    if device.startswith("cuda"):
        import cupyx

        with cupyx.allow_synchronize(False):
            yield
    elif device == "strict":
        from strict_device import counting

        with counting() as waits:
            yield
        if waits:
            raise AssertionError("\n".join([f"{len(waits)} waits", *waits[:10]]))
    else:
        yield


def no_wait(device: str, quick: bool) -> dict[str, Any]:
    """Forward, backward, clipping and the update are only queued: the loss is read when somebody asks."""
    step = training(device, quick, dropout=0.1)
    step()  # kernels are compiled at their first use
    with forbidding_waits(device):
        losses = [step() for _ in range(3)]
    return {"figure": f"3 steps queued without waiting, then the loss read: {float(losses[-1]):.3f}"}
