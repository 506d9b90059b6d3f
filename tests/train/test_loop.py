"""The loop: workers agree, rows that do not count do not count, NaN is named, the field's cases hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.nn import MiniGPT
from tinygrad_attn.tasks.letters import IGNORED, Batch
from tinygrad_attn.train.gradient import BatchGradient, keys, scaled_and_clipped
from tinygrad_attn.train.loop import NotFinite, Trainer
from tinygrad_attn.train.settings import preset, task_of
from tinygrad_attn.train.workers import Threads, share

TINY: dict[str, Any] = {"d_model": 16, "n_heads": 2, "n_layers": 2, "batch": 7, "warmup": 2, "eval_every": 1000}


def trained(workers: int, task: str = "copy", **changes: Any) -> tuple[list[float], dict[str, np.ndarray]]:
    trainer = Trainer(*task_of(preset(task, **{**TINY, **changes})), Threads(workers))
    losses = [report.loss for report in trainer.steps()]
    return losses, trainer.model.state_dict()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_seed_repeats_bit_for_bit(workers: int, dropout: float) -> None:
    (first, weights), (again, same) = (trained(workers, steps=15, dropout=dropout) for _ in range(2))
    assert first == again
    for name in weights:
        np.testing.assert_array_equal(weights[name], same[name])


@pytest.mark.parametrize("workers, accumulate", [(2, 1), (7, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("task", ["copy", "text"])
def test_any_split_of_the_batch_gives_the_same_training(workers: int, accumulate: int, task: str) -> None:
    settings: dict[str, Any] = {"steps": 12, "dropout": 0.2, "dtype": "float64"}
    alone, weights = trained(1, task, **settings)
    losses, split = trained(workers, task, accumulate=accumulate, **settings)
    np.testing.assert_allclose(losses, alone, rtol=1e-12)
    for name in weights:
        np.testing.assert_allclose(split[name], weights[name], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        trained(workers, task, accumulate=accumulate, steps=12, dropout=0.2)[0], alone, rtol=2e-5
    )


def _model(seed: int = 0) -> MiniGPT:
    return MiniGPT(11, 6, 16, 2, 2, seed=seed).astype("float64")


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_uneven_shares_and_ignored_targets(workers: int) -> None:
    """The gradient is that of one mean over all counted targets, though the shares' counts differ."""
    rng = np.random.default_rng(0)
    tokens, targets = rng.integers(11, size=(5, 6)), rng.integers(11, size=(5, 6))
    targets[0] = IGNORED  # a share without any target
    targets[rng.random((5, 6)) < 0.4] = IGNORED
    model = _model()
    optimizer = ta.optim.AdamW(model.parameters(), matrices_only=True)
    gradient = BatchGradient(model, optimizer, Threads(workers), seed=0)
    loss, count = gradient(lambda first, size: Batch(tokens[first : first + size], targets[first : first + size]), 5, 0)
    scaled_and_clipped(optimizer.gradients, count, 1e9)
    whole = ta.cross_entropy(model(tokens), targets)
    whole.backward()
    assert count == (targets != IGNORED).sum()
    np.testing.assert_allclose(loss / count, whole.item(), rtol=1e-13)
    for group, buffer in zip(optimizer.groups, optimizer.gradients):
        for p, place in zip(group.params, group.places):
            assert p.grad is not None
            np.testing.assert_allclose(buffer[place], p.grad.numpy().reshape(-1), rtol=1e-9, atol=1e-14)


def test_shares_cover_the_batch() -> None:
    for rows in range(1, 20):
        for workers in range(1, rows + 1):
            shares = [share(rows, workers, i) for i in range(workers)]
            assert [row for part in shares for row in part] == list(range(rows))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_an_error_in_a_worker_is_raised() -> None:
    def work(number: int) -> None:
        if number == 1:
            raise KeyError("from worker 1")

    with pytest.raises(KeyError, match="from worker 1"):
        Threads(3).each(work)
    with pytest.raises(ValueError, match="cannot share 7 rows"):
        Trainer(*task_of(preset("copy", **TINY)), Threads(8))


# ---------------------------------------------------------------------------- NaN and Inf


def test_a_parameter_that_is_not_finite_is_named() -> None:
    trainer = Trainer(*task_of(preset("copy", **TINY)))
    broken = trainer.model.blocks[1].mlp.up.W
    broken.data = np.full(broken.shape, np.nan)
    with pytest.raises(NotFinite, match=r"step 1: the parameter blocks\.1\.mlp\.up\.W is not finite"):
        next(trainer.steps())


def test_the_first_operation_that_overflows_is_named() -> None:
    trainer = Trainer(*task_of(preset("copy", **TINY)))
    before = trainer.model.state_dict()
    down = trainer.model.blocks[0].mlp.down.W
    trainer.model.blocks[0].mlp.up.W.data = np.full((16, 64), 3e37)
    down.data = np.full(down.shape, 3e37)
    message = r"step 1: the first value that is not finite is the result of affine in blocks\.0\.mlp\.(up|down)"
    with pytest.raises(NotFinite, match=message), np.errstate(all="ignore"):
        next(trainer.steps())
    np.testing.assert_array_equal(trainer.model.blocks[1].mlp.up.W.numpy(), before["blocks.1.mlp.up.W"])  # not stepped
    assert all(type(p) is ta.Tensor for p in trainer.model.parameters())


def test_a_gradient_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @ta.op(vjps={"x": lambda g: g * float("inf")})
    def cliff(x: Any) -> Any:
        return x + 0

    trainer = Trainer(*task_of(preset("copy", **TINY)))
    forward: Callable[..., Any] = trainer.model.norm.forward
    monkeypatch.setattr(trainer.model.norm, "forward", lambda x: cliff(forward(x)), raising=False)
    with pytest.raises(NotFinite, match=r"all values are finite; the first gradient that is not comes from cliff"):
        next(trainer.steps())


# ---------------------------------------------------------------------------- cases of the field


def test_g3_a_tied_parameter_is_stepped_once() -> None:
    w = ta.Tensor([1.0], requires_grad=True, dtype="float64")
    optimizer = ta.optim.SGD([w, w], lr=0.05)
    ((2 * w) * (3 * w)).sum().backward()
    assert w.grad is not None and w.grad.item() == 12.0
    optimizer.step()
    assert w.item() == pytest.approx(0.4, abs=1e-15)


def test_g3_a_tied_head_trains() -> None:
    model = MiniGPT(11, 6, 16, 2, 1, tie_head=True).astype("float64")
    tokens = np.random.default_rng(0).integers(11, size=(4, 7))
    optimizer = ta.optim.AdamW(model.parameters(), matrices_only=True)
    BatchGradient(model, optimizer, Threads(2), 0)(
        lambda a, n: Batch(tokens[a : a + n, :-1], tokens[a : a + n, 1:]), 4, 0
    )
    scaled_and_clipped(optimizer.gradients, 24, 1e9)
    model.loss(tokens).backward()
    group = optimizer.groups[0]
    assert group.params[0] is model.tokens.W and model.tokens.W.grad is not None
    np.testing.assert_allclose(
        optimizer.gradients[0][group.places[0]], model.tokens.W.grad.numpy().reshape(-1), rtol=1e-9
    )


def test_k2_clipping() -> None:
    def grads() -> list[np.ndarray]:
        return [np.array([3.0, 4.0]), np.array([12.0])]

    flat = grads()
    assert scaled_and_clipped(flat, 1, 6.5) == pytest.approx(13.0)
    np.testing.assert_allclose(flat[0], [1.5, 2.0])
    np.testing.assert_allclose(flat[1], [6.0])
    unchanged = grads()
    assert scaled_and_clipped(unchanged, 1, 20.0) == pytest.approx(13.0)
    np.testing.assert_array_equal(unchanged[0], [3.0, 4.0])
    a, b = (ta.Tensor(np.zeros(g.shape), True) for g in grads())
    a.grad, b.grad = grads()
    assert float(ta.optim.clip_grad_norm((p for p in (a, b)), 6.5)) == pytest.approx(13.0)
    np.testing.assert_allclose(a.grad.numpy(), [1.5, 2.0])
    assert float(ta.optim.clip_grad_norm([a, b], 100.0, norm_type=np.inf)) == pytest.approx(6.0)
    with pytest.warns(UserWarning, match="exhausted generator"):
        ta.optim.clip_grad_norm((p for p in ()), 1.0)
    bad = [np.array([np.nan, 1.0])]
    assert np.isnan(scaled_and_clipped(bad, 1, 1.0)) and bad[0][1] == 1.0


@pytest.mark.parametrize(
    "kind, expected", [(ta.optim.Adam, [0.91666667, 0.89538799]), (ta.optim.AdamW, [0.90666667, 0.87632132])]
)
def test_k3_bias_correction_and_decay(kind: Any, expected: list[float]) -> None:
    w, unused = (ta.Tensor([1.0], requires_grad=True, dtype="float64") for _ in range(2))
    more = {"weight_decay": 0.1} if kind is ta.optim.AdamW else {}
    optimizer = kind([w, unused], lr=0.1, betas=(0.9, 0.99), eps=0.1, **more)
    for gradient, value in zip((0.5, -0.25), expected):
        w.grad = [gradient]
        optimizer.step()
        assert w.item() == pytest.approx(value, abs=1e-8)
    assert unused.item() == 1.0


def test_k3_warm_up_and_matrices_only() -> None:
    assert ta.optim.warmup_cosine(0, 100, 1.0, warmup=10) == pytest.approx(0.1)
    assert ta.optim.warmup_cosine(0, 1, 1.0) == 1.0
    trainer = Trainer(*task_of(preset("copy", **TINY)))
    for group in trainer.optimizer.groups:
        assert {trainer.optimizer.decays(p) for p in group.params} == {group.params[0].ndim >= 2}


def test_k5_dropout_is_seeded_and_leaves_numpy_alone() -> None:
    before = np.random.get_state()[1].copy()
    masks = []
    for _ in range(2):
        ta.manual_seed(7)
        masks.append(ta.dropout(ta.ones(10_000), 0.3).numpy())
    np.testing.assert_array_equal(*masks)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    kept = masks[0] != 0
    assert abs(kept.mean() - 0.7) < 0.0184
    np.testing.assert_allclose(masks[0][kept], 1.42857143, rtol=1e-6)


def test_j5_dropout_is_off_in_evaluation() -> None:
    trainer = Trainer(*task_of(preset("copy", **TINY, dropout=0.5)))
    first, second = trainer.evaluate(), trainer.evaluate()
    assert first == second and trainer.model.training
    assert first == Trainer(*task_of(preset("copy", **TINY, dropout=0.0))).evaluate()


def test_dropout_follows_the_place_in_the_batch() -> None:
    from tinygrad_attn.autodiff.mode import drawing

    x = ta.ones((6, 4, 3))
    with drawing(keys(3, 9, 0)):
        whole = [ta.dropout(x, 0.5).numpy(), ta.dropout(x, 0.5).numpy()]
    with drawing(keys(3, 9, 4)):
        part = [ta.dropout(x[4:], 0.5).numpy(), ta.dropout(x[4:], 0.5).numpy()]
    for a, b in zip(whole, part):
        np.testing.assert_array_equal(a[4:], b)
    assert not np.array_equal(*whole)


def test_settings_are_checked() -> None:
    for wrong in ({"batch": 0}, {"lr": 0.0}, {"dropout": 1.0}, {"dtype": "float16"}, {"seed": -1}, {"text": "a.txt"}):
        with pytest.raises(ValueError, match=re.escape(next(iter(wrong)))):
            preset("copy", **wrong)
