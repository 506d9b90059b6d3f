"""Modules, attention and training on the strict device: NumPy's numbers, and no wait for it in a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import strict_device
from small_model import sequences, stepper
from strict_device import StrictArray, counting, module

import tinygrad_attn as ta

strict_device.register()

DEVICES = ("strict", "cpu")
Make = Callable[[str], Any]


def on(device: str, *shape: int, seed: int = 0, dtype: Any = np.float32) -> ta.Tensor:
    return ta.Tensor(np.random.default_rng(seed).standard_normal(shape), True, dtype=dtype, device=device)


def close(ours: list[ta.Tensor], numpys: list[ta.Tensor], rtol: float = 1e-5) -> None:
    for x, y in zip(ours, numpys, strict=True):
        assert (x.device, x.dtype, x.shape) == ("strict", y.dtype, y.shape)
        np.testing.assert_allclose(
            x.numpy(), y.numpy(), rtol=rtol, atol=rtol * float(np.abs(y.numpy()).max(initial=1.0))
        )


# ---------------------------------------------------------------------------- attention

KEEP = np.array([[True, False, True], [False, False, False], [True, True, False]])
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "unscaled": {"scale": 1.0},
    "mask, one row empty": {"mask": KEEP},
    "mask of integers": {"mask": KEEP.astype(int)},
    "mask and causal": {"mask": KEEP, "causal": "top-left"},
    "bias": {"bias": True},
    "dropout": {"dropout": 0.4},
    "everything": {"mask": KEEP, "causal": True, "bias": True, "dropout": 0.4, "scale": 0.3},
}


@pytest.mark.parametrize("function", ["scaled_dot_product_attention", "fused_attention"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_attention(function: str, dtype: Any, settings: dict[str, Any]) -> None:
    results = []
    for device in DEVICES:
        ta.manual_seed(1)
        q, k, v = (on(device, 2, 3, 4, seed=i, dtype=dtype) for i in range(3))
        more = dict(settings)
        if "bias" in more:
            more["bias"] = on(device, 3, 3, seed=3, dtype=dtype)
        with counting() as waits:
            out = getattr(ta, function)(q, k, v, **more)
            outs = list(out) if isinstance(out, tuple) else [out]
            (outs[0] * on(device, 2, 3, 4, seed=4, dtype=dtype).detach()).sum().backward()
        assert waits == []
        results.append([*outs, q.grad, k.grad, v.grad, *([more["bias"].grad] if "bias" in more else [])])
    close(*results, rtol={np.float64: 1e-12, np.float32: 2e-6, np.float16: 4e-3}[dtype])


@pytest.mark.parametrize("function", ["scaled_dot_product_attention", "fused_attention"])
def test_gradients_of_gradients_of_attention(function: str) -> None:
    results = []
    for device in DEVICES:
        q, k, v = (on(device, 3, 4, seed=i, dtype=np.float64) for i in range(3))
        out = getattr(ta, function)(q, k, v, causal=True)
        out = out[0] if isinstance(out, tuple) else out
        first = ta.grad((out * out).sum(), [q, k, v], create_graph=True)
        sum((g * g).sum() for g in first).backward()  # type: ignore[union-attr]
        results.append([*first, q.grad, k.grad, v.grad])
    close(*results, rtol=1e-11)


@pytest.mark.parametrize("mask", [None, KEEP[:, [0, 1, 2, 0]]], ids=["all", "mask"])
def test_additive_attention(mask: Any) -> None:
    results = []
    for device in DEVICES:
        shapes = ((2, 3, 4), (2, 4, 4), (2, 4, 5), (4, 6), (4, 6), (6,))  # q, k, v, W_q, W_k, w
        arguments = [on(device, *shape, seed=i) for i, shape in enumerate(shapes)]
        with counting() as waits:
            out, weights = ta.additive_attention(*arguments, mask=mask)
            (out * out).sum().backward()
        assert waits == []
        results.append([out, weights, *[x.grad for x in arguments]])
    close(*results)


# ---------------------------------------------------------------------------- modules

MODULES: dict[str, tuple[Make, tuple[int, ...]]] = {
    "Linear": (lambda _: ta.nn.Linear(4, 3, seed=0), (2, 5, 4)),
    "LayerNorm": (lambda _: ta.nn.LayerNorm(4), (2, 5, 4)),
    "Dropout": (lambda _: ta.nn.Dropout(0.3), (2, 5, 4)),
    "MultiHeadAttention": (lambda _: ta.nn.MultiHeadAttention(4, 2, seed=0), (2, 5, 4)),
    "packed, with biases": (lambda _: ta.nn.MultiHeadAttention(4, 2, seed=0, packed=True, bias=True), (2, 5, 4)),
    "grouped queries": (lambda _: ta.nn.MultiHeadAttention(8, 4, seed=0, n_kv_heads=2, causal=True), (2, 5, 8)),
    "tied": (lambda _: ta.nn.MultiHeadAttention(4, 2, seed=0, tie="qkv", dropout=0.2), (2, 5, 4)),
    "Block": (lambda _: ta.nn.Block(4, 2, seed=0, causal=True, dropout=0.1), (2, 5, 4)),
}


@pytest.mark.parametrize(("make", "shape"), MODULES.values(), ids=MODULES.keys())
def test_modules(make: Make, shape: tuple[int, ...]) -> None:
    results = []
    for device in DEVICES:
        model, x = make(device).to(device), on(device, *shape, seed=5)
        ta.manual_seed(2)
        with counting() as waits:
            out = model(x)
            (out * on(device, *out.shape, seed=6).detach()).sum().backward()
        assert waits == []
        parameters = model.parameters()
        assert all(p.device == device and p.requires_grad for p in parameters)
        results.append([out, x.grad, *[p.grad for p in parameters]])
    close(*results)


def test_decoding_with_a_cache_and_a_mask_per_batch_entry() -> None:
    results = []
    for device in DEVICES:
        mha = ta.nn.MultiHeadAttention(4, 2, seed=0, causal=True).to(device)
        cache, x = ta.nn.KVCache(), on(device, 2, 3, 4)
        with ta.no_grad():
            pieces = [mha(x[:, i : i + 1], cache=cache) for i in range(3)]
        masked = mha(x, mask=ta.Tensor(np.ones((2, 3, 3), bool), device=device))
        results.append([ta.concatenate(pieces, axis=1), mha(x), masked])
    close(*results)
    np.testing.assert_allclose(results[0][0].numpy(), results[0][1].numpy(), atol=1e-6)


def test_a_language_model_reads_and_writes() -> None:
    ids, _ = sequences(11, 2, 5)
    found = []
    for device in DEVICES:
        model = ta.nn.MiniGPT(11, 8, d_model=8, n_heads=2, n_layers=1, seed=0).to(device)
        found.append([float(model.loss(ids)), float(model.loss(ta.Tensor(ids, device=device)))])
        made = model.generate(ids, 3, seed=1)
        assert isinstance(made, np.ndarray) and made.shape == (2, 8)
        found[-1].append(made.tolist())
    np.testing.assert_allclose(found[0][:2], found[1][:2], rtol=1e-6)
    assert found[0][2] == found[1][2]


def test_looking_on_while_gradients_flow() -> None:
    x = on("strict", 3, 4)
    seen: list[Any] = []
    weights = ta.softmax(x @ x.mT).retain_grad()
    weights.register_hook(lambda g: seen.append(g) or g * 2.0)  # type: ignore[func-returns-value]
    loss = (weights * weights).sum()
    with counting() as waits:
        kinds = [step.node.op.name for step in ta.steps(loss)]
    assert waits == [] and kinds[0] == "sum" and kinds[-1] == "leaf"
    assert weights.grad is not None and weights.grad.device == seen[0].device == "strict"
    np.testing.assert_allclose(weights.grad.numpy(), 2 * seen[0].numpy())


def test_watching_gives_the_same_table_and_does_not_wait() -> None:
    tables, (ids, _) = [], sequences(11, 1, 5)
    for device in DEVICES:
        model = ta.nn.MiniGPT(11, 8, d_model=8, n_heads=2, n_layers=1, seed=0).to(device)
        with counting() as waits, ta.probe.watch(model, "*.scores", "*.weights", "*.W_Q") as seen:
            model.loss(ids).backward()
        assert waits == [] and seen["blocks.0.attn.scores"].grad.device == device
        tables.append(str(seen.table()))
    assert tables[0] == tables[1]


def test_state_moves_between_devices() -> None:
    model = ta.nn.MiniGPT(7, 5, d_model=4, n_heads=2, n_layers=1, seed=0)
    there = ta.nn.MiniGPT(7, 5, d_model=4, n_heads=2, n_layers=1, seed=1).to("strict")
    there.load_state_dict(model.state_dict())
    assert all(isinstance(value, np.ndarray) for value in there.state_dict().values())
    assert all(p.device == "strict" for p in there.parameters())
    for name, value in there.to("cpu").state_dict().items():
        np.testing.assert_array_equal(value, model.state_dict()[name])


# ---------------------------------------------------------------------------- training

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: ta.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: ta.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "AdamW": lambda p: ta.optim.AdamW(p, lr=0.01, matrices_only=True),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_training_gives_numpys_curve_and_never_waits(make: Callable[[Any], Any]) -> None:
    ids, targets = sequences(11, 6, 5)
    curves, weights = [], []
    for device in DEVICES:
        ta.manual_seed(3)
        model = ta.nn.MiniGPT(11, 5, d_model=8, n_heads=2, n_layers=2, seed=0, dropout=0.1).to(device)
        weights.append(model.state_dict())
        optimizer = make(model.parameters())
        data = [ta.Tensor(a, device=device) for a in (ids, targets)]
        step = stepper(model, *data, optimizer, max_norm=0.5)
        with counting() as waits:
            losses = [step() for _ in range(8)]
        assert waits == []
        curves.append([float(loss) for loss in losses])
        optimizer.load_state_dict(optimizer.state_dict())
        arrays = [a for group in optimizer.groups for a in (group.gradient, *group.moments.values())]
        assert all(type(a) is StrictArray for a in arrays) or device == "cpu"
        step()
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name])  # the same seed, the same weights
    np.testing.assert_allclose(*curves, rtol=1e-4)
    assert curves[0][-1] < curves[0][0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_clipping_stays_on_the_device(bad: float) -> None:
    cases = ((6.5, 2, 13, [1.5, 2, 6]), (20, 2, 13, [3, 4, 12]), (20, np.inf, 12, [3, 4, 12]))  # K2
    for device in DEVICES:
        p, q = ta.zeros(2, requires_grad=True, device=device), ta.zeros(1, requires_grad=True, device=device)
        for max_norm, norm_type, norm, left in cases:
            p.grad, q.grad = [3.0, 4.0], [12.0]
            with counting() as waits:
                found = ta.optim.clip_grad_norm((t for t in (p, q)), max_norm, norm_type)
            assert waits == [] and float(found) == norm
            np.testing.assert_array_equal([*p.grad.numpy(), *q.grad.numpy()], left)
        p.grad = [bad, 4.0]
        assert not np.isfinite(float(ta.optim.clip_grad_norm([p, q], 1.0)))
        np.testing.assert_array_equal(p.grad.numpy(), [bad, 4.0])  # left as it was


def test_dropout_draws_the_same_pattern_on_every_device() -> None:
    patterns = []
    for device in DEVICES:
        ta.manual_seed(7)
        patterns.append(ta.dropout(ta.ones(1000, device=device), 0.3).numpy())
    np.testing.assert_array_equal(*patterns)


def test_the_learners_update_and_in_place_edits() -> None:
    w = on("strict", 3)
    (w * w).sum().backward()
    before = w.numpy()
    with ta.no_grad():
        w -= 0.1 * w.grad
    np.testing.assert_allclose(w.numpy(), 0.8 * before, rtol=1e-6)
    w.data = np.ones(3)  # setting values is a move to the device
    w.data = module.ones(3)
    assert w.device == "strict" and w.dtype == np.float32 and type(w.data) is StrictArray
