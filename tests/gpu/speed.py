"""How fast is it?  A training step and attention, ours on the device, NumPy's, and PyTorch's where it has CUDA.

Medians of alternating rounds; every figure in ms.  A timing is never a failure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from small_model import sequences, stepper

import tinygrad_attn as ta


def medians(contenders: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """ms per call of each, taking turns; each call ends when its result is there."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call(), call()  # compile, warm up
    for _ in range(rounds):
        for name, call in contenders.items():
            started = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - started))
    return {name: round(statistics.median(each), 4) for name, each in times.items()}


def torch_or_none(device: str, quick: bool) -> Any:
    if quick:
        return None
    try:
        import torch
    except ImportError:
        return None
    return torch if device == "cpu" or (device.startswith("cuda") and torch.cuda.is_available()) else None


def told(title: str, ms: dict[str, float]) -> str:
    ours = ms["ours"]
    others = (f"{name} {each:.2f} ms (ratio {each / ours:.2f})" for name, each in ms.items() if name != "ours")
    return f"{title:22} " + ", ".join([f"ours {ours:.2f} ms", *others])


# ---------------------------------------------------------------------------- a training step

CONFIGURATIONS = {  # d_model, heads, layers, T, B
    "seed": (64, 4, 4, 64, 16),
    "wide": (256, 8, 4, 128, 16),
    "large": (512, 8, 8, 256, 16),
}


def training_step(device: str, quick: bool) -> dict[str, Any]:
    names = ["seed"] if quick or not device.startswith("cuda") else list(CONFIGURATIONS)
    lines, figures = [], {}
    for name in names:
        shape = (16, 2, 1, 8, 4) if quick else CONFIGURATIONS[name]
        contenders = {"ours": our_step(device, *shape)}
        if device != "cpu" and name == "seed":
            contenders["NumPy"] = our_step("cpu", *shape)
        torch = torch_or_none(device, quick)
        if torch is not None:
            contenders["PyTorch"] = torch_step(torch, device, *shape)
        figures[name] = medians(contenders, 3 if quick else 20)
        lines.append(told(name, figures[name]))
    return {"figure": "\n".join(lines), "ms": figures}


def our_step(device: str, d_model: int, heads: int, layers: int, T: int, B: int) -> Callable[[], None]:
    model = ta.nn.MiniGPT(65, T, d_model, heads, layers, seed=0).to(device)
    data = [ta.Tensor(a, device=device) for a in sequences(65, B, T)]
    step = stepper(model, *data, ta.optim.AdamW(model.parameters(), lr=1e-4))
    return lambda: float(step()) and None


def torch_step(torch: Any, device: str, d_model: int, heads: int, layers: int, T: int, B: int) -> Callable[[], None]:
    """The same model of PyTorch's own layers: pre-norm, GELU, causal, fused AdamW."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(
        d_model, heads, 4 * d_model, 0.0, nn.GELU("tanh"), batch_first=True, norm_first=True
    )
    parts = {
        "tokens": nn.Embedding(65, d_model),
        "positions": nn.Embedding(T, d_model),
        "blocks": nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        "norm": nn.LayerNorm(d_model),
        "head": nn.Linear(d_model, 65, bias=False),
    }
    model = nn.ModuleDict(parts).to(device)
    ids, targets = (torch.tensor(a, device=device) for a in sequences(65, B, T))
    hidden = nn.Transformer.generate_square_subsequent_mask(T, device=device)
    places = torch.arange(T, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.startswith("cuda"))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        x = model["tokens"](ids) + model["positions"](places)
        logits = model["head"](model["norm"](model["blocks"](x, mask=hidden, is_causal=True)))
        loss = nn.functional.cross_entropy(logits.reshape(-1, 65), targets.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step


# ---------------------------------------------------------------------------- attention


def attention(device: str, quick: bool) -> dict[str, Any]:
    """Causal attention forward and backward, (B, H, T, 64), float32."""
    on_gpu = device.startswith("cuda")
    shapes = [(1, 2, 16)] if quick else [(4, 8, 256), (4, 8, 1024), (1, 8, 4096)] if on_gpu else [(1, 4, 256)]
    lines, figures = [], {}
    for B, H, T in shapes:
        arrays = [np.random.default_rng(i).standard_normal((B, H, T, 64), dtype=np.float32) for i in range(4)]
        contenders: dict[str, Callable[[], None]] = {
            "ours": our_attention(device, arrays, "fused_attention"),
            "explicit": our_attention(device, arrays, "scaled_dot_product_attention"),
        }
        torch = torch_or_none(device, quick)
        if torch is not None:
            contenders["PyTorch"] = torch_attention(torch, device, arrays)
        title = f"{B} x {H} x {T} x 64"
        figures[title] = medians(contenders, 3 if quick else 20)
        lines.append(told(title, figures[title]))
    return {"figure": "\n".join(lines), "ms": figures}


def our_attention(device: str, arrays: list[np.ndarray], name: str) -> Callable[[], None]:
    q, k, v = (ta.Tensor(a, True, device=device) for a in arrays[:3])
    g = ta.Tensor(arrays[3], device=device)

    def call() -> None:
        q.grad = k.grad = v.grad = None
        out = getattr(ta, name)(q, k, v, causal=True)
        (out[0] if isinstance(out, tuple) else out).backward(g)
        assert q.grad is not None
        float(q.grad[0, 0, 0, 0])  # waits for the device

    return call


def torch_attention(torch: Any, device: str, arrays: list[np.ndarray]) -> Callable[[], None]:
    q, k, v, g = (torch.tensor(a, device=device, requires_grad=i < 3) for i, a in enumerate(arrays))

    def call() -> None:
        q.grad = k.grad = v.grad = None
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(g)
        q.grad[0, 0, 0, 0].item()

    return call
