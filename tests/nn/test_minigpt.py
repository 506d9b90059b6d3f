"""MiniGPT: shapes, causality, the cache, sampling, learning, files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from wide import wide

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching
from tinygrad_attn.nn.sample import pick

GPT = ta.nn.MiniGPT


def small(**settings):
    return GPT(**{"vocab_size": 11, "context": 8, "d_model": 8, "n_heads": 2, "n_layers": 2, "seed": 0, **settings})


def text(*shape):
    return np.random.default_rng(1).integers(11, size=shape)


# ---------------------------------------------------------------------------- the model


def test_default_scale_and_names():
    model = GPT(65, 64)
    assert (model.blocks[0].attn.n_heads, len(model.blocks)) == (4, 4)
    names = [name for name, _ in model.named_parameters()]
    assert names[:3] == ["tokens.W", "positions.W", "blocks.0.norm1.gain"] and names[-1] == "head.W"
    assert model(text(2, 5)).shape == (2, 5, 65)
    assert model([1, 2, 3]).shape == (3, 65)
    for name, parameter in model.named_parameters():
        if name.endswith(".W") or ".W_" in name:
            assert_allclose(parameter.numpy().std(), 0.02, rtol=0.1)
    assert_allclose(model.loss(text(4, 20)).item(), np.log(65), atol=0.1)


def test_same_seed_same_bits():
    for a, b in zip(small().parameters(), small().parameters()):
        assert_array_equal(a.data, b.data)


def test_tied_head_is_the_token_table():
    model = small(tie_head=True)
    assert "head.W" not in dict(model.named_parameters())
    free = small()
    state = model.state_dict()
    free.load_state_dict({**state, "head.W": state["tokens.W"].T})
    for m in (model, free):
        m.astype(np.float64)
        m.loss(text(2, 6)).backward()
    assert_allclose(model(text(6)).numpy(), free(text(6)).numpy(), rtol=1e-12)
    assert_allclose(
        model.tokens.W.grad.numpy(), free.tokens.W.grad.numpy() + free.head.W.grad.numpy().T, rtol=1e-9, atol=1e-14
    )


def test_residual_init_shrinks_the_last_matrix_of_each_branch():
    plain, shrunk = small(), small(residual_init=True)
    for (name, a), (_, b) in zip(plain.named_parameters(), shrunk.named_parameters()):
        last = name.endswith(("W_O", "down.W"))
        assert_allclose(b.numpy(), a.numpy() / (2.0 if last else 1.0), rtol=1e-6)


@pytest.mark.parametrize("attention", ["explicit", "fused"])
def test_gradients_of_the_whole_model(attention):
    model = wide(small(d_model=4, n_layers=1, vocab_size=5, context=3, attention=attention))
    names = [name for name, _ in model.named_parameters()]
    ids = np.array([[0, 3, 1], [4, 4, 2]])

    def loss(*values):
        for name, value in zip(names, values):
            *path, last = name.split(".")
            part = model
            for step in path:
                part = part[int(step)] if step.isdigit() else getattr(part, step)
            setattr(part, last, value)
        return model.loss(ids)

    ta.testing.check_grads(loss, *(p.numpy() for p in model.parameters()), order=1)


@pytest.mark.parametrize("attention", ["explicit", "fused"])
def test_no_gradient_from_the_future(attention):
    model = wide(small(attention=attention))
    for t in range(6):
        seen = {}
        with watching(lambda name, x: seen.update({name: x})):
            logits = model(text(6))
        at = seen["embedded"].retain_grad()
        (logits[t] ** 2).sum().backward()
        assert_array_equal(at.grad.numpy()[t + 1 :], 0)
        assert (np.abs(at.grad.numpy()[: t + 1]).max(-1) > 0).all()


def test_it_learns():
    """3 i + 1 mod 11, from 0.1 s of training."""
    model = small(d_model=16)
    ids = np.array([[(start * 3**i + sum(3**j for j in range(i))) % 11 for i in range(8)] for start in range(11)])
    optimizer = ta.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        model.zero_grad()
        loss = model.loss(ids)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert_array_equal(model.generate(ids[:, :1], 7, temperature=0), ids)


def test_dropout_is_off_in_eval_and_repeats_from_a_seed():
    model = small(dropout=0.3)
    ta.manual_seed(3)
    first = model(text(6)).numpy()
    assert (model(text(6)).numpy() != first).any()
    ta.manual_seed(3)
    assert_array_equal(model(text(6)).numpy(), first)
    model.eval()
    assert_array_equal(model(text(6)).numpy(), model(text(6)).numpy())


def test_intermediates_have_paths():
    names = {}
    for attention in ("explicit", "fused"):
        seen = []
        model = small(attention=attention)
        with watching(lambda name, x, seen=seen: seen.append((name, x.shape))):
            model(text(2, 6))
        names[attention] = seen
    assert names["explicit"] == names["fused"]
    steps = ["q", "k", "v", "scores", "scaled", "masked", "weights", "mix", "out"]
    assert [name for name, _ in names["fused"] if name.startswith("blocks.0.")] == [
        f"blocks.0.attn.{step}" for step in steps
    ]
    assert dict(names["fused"])["blocks.1.attn.scores"] == (2, 2, 6, 6)


# ---------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("attention", ["explicit", "fused"])
def test_cached_logits_equal_the_full_pass(attention):
    model, ids = wide(small(attention=attention, n_kv_heads=1)), text(3, 8)
    full = model(ids).numpy()
    cache = model.new_cache()
    parts = [model(part, cache).numpy() for part in np.split(ids, [4, 5, 7], axis=1)]
    assert_allclose(np.concatenate(parts, axis=1), full, rtol=1e-11, atol=1e-13)
    with pytest.raises(ValueError, match="1 tokens after 8 in the cache do not fit the context of 8"):
        model(ids[:, :1], cache)


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0}, {"temperature": 3.0}, {"top_k": 3}, {"top_k": 1}], ids=str
)
def test_generation_is_the_same_with_and_without_cache(settings):
    model = wide(small())
    for prompt in (text(3), text(2, 3), text(2, 10)):
        runs = [model.generate(prompt, 9, seed=5, cache=cache, **settings) for cache in (True, False)]
        assert_array_equal(*runs)
        assert runs[0].shape == (*prompt.shape[:-1], prompt.shape[-1] + 9)
        assert_array_equal(runs[0][..., : prompt.shape[-1]], prompt)
        assert runs[0].min() >= 0 and runs[0].max() < 11


def test_generation_leaves_the_model_as_it_was():
    model = small(dropout=0.5)
    model.blocks[0].eval()
    before = [part.training for _, part in model.named_modules()]
    state = np.random.get_state()[1].copy()
    a, b = model.generate([1], 5, seed=1), model.generate([1], 5, seed=1)
    assert_array_equal(a, b)
    assert [part.training for _, part in model.named_modules()] == before
    assert_array_equal(np.random.get_state()[1], state)
    ta.manual_seed(2)
    c = model.generate([1], 20)
    ta.manual_seed(2)
    assert_array_equal(model.generate([1], 20), c)


def test_pick_follows_the_distribution():
    draws = np.random.default_rng(0)
    logits = np.log(np.tile([0.5, 0.3, 0.15, 0.05], (20_000, 1)))
    share = lambda picked: np.bincount(picked, minlength=4) / len(picked)
    assert_allclose(share(pick(logits, 1.0, None, draws)), [0.5, 0.3, 0.15, 0.05], atol=0.015)
    assert_allclose(share(pick(logits, 1.0, 2, draws)), [0.625, 0.375, 0, 0], atol=0.015)
    assert_allclose(share(pick(logits, 0.5, None, draws)), np.array([25, 9, 2.25, 0.25]) / 36.5, atol=0.015)
    assert_allclose(share(pick(np.zeros((20_000, 4)), 1.0, 3, draws)), [1 / 3, 1 / 3, 1 / 3, 0], atol=0.015)
    assert (pick(logits, 1e-300, None, draws) == 0).all()


# ---------------------------------------------------------------------------- files


def test_save_and_load(tmp_path):
    for settings in ({}, {"tie_head": True}, {"packed": True, "bias": True, "eps": 1e-3}, {"n_kv_heads": np.int64(1)}):
        model = wide(small(**settings))
        model.save(tmp_path / "model.safetensors")
        again = GPT.load(tmp_path / "model.safetensors")
        assert_array_equal(again(text(6)).data, model(text(6)).data)
        assert again.norm.eps == model.norm.eps and again.tokens.W.dtype == np.float64
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_load_names_what_does_not_fit(tmp_path):
    path = tmp_path / "model.safetensors"
    small().save(path)
    state, metadata = ta.nn.read_tensors(path)

    def altered(**changes):
        changed = {name: array for name, array in {**state, **changes}.items() if array is not None}
        ta.nn.write_tensors(path, changed, metadata)
        return path

    with pytest.raises(KeyError, match=r"missing blocks\.1\.attn\.W_O"):
        GPT.load(altered(**{"blocks.1.attn.W_O": None}))
    with pytest.raises(KeyError, match="unexpected surplus"):
        GPT.load(altered(surplus=np.ones(1)))
    with pytest.raises(ValueError, match=r"head\.W: expected \(8, 11\), got \(8, 12\)"):
        GPT.load(altered(**{"head.W": np.ones((8, 12))}))
    ta.nn.write_tensors(path, state)
    with pytest.raises(ValueError, match=r"model\.safetensors: not written by MiniGPT\.save"):
        GPT.load(path)
    for settings in ({}, {"settings": "{"}, {"settings": '{"vocab_size": 3, "context": 2, "layers": 1}'}):
        ta.nn.write_tensors(path, state, {"kind": metadata["kind"], **settings})
        with pytest.raises(ValueError, match=r"model\.safetensors: its settings make no MiniGPT"):
            GPT.load(path)
    ta.nn.write_tensors(path, {}, metadata)
    with pytest.raises(KeyError, match=r"missing blocks\.0"):
        GPT.load(path)


# ---------------------------------------------------------------------------- what it refuses


def test_bad_calls():
    model = small()
    with pytest.raises(ValueError, match="9 tokens do not fit the context of 8 positions"):
        model(text(9))
    with pytest.raises(IndexError, match="index 11 is outside a table of 11 rows"):
        model([11])
    with pytest.raises(TypeError, match="integer"):
        model(np.ones(3))
    with pytest.raises(ValueError, match="single number"):
        model(3)
    with pytest.raises(ValueError, match="n_heads must divide d_model"):
        small(n_heads=3)
    with pytest.raises(ValueError, match="vocab_size=0"):
        small(vocab_size=0)
    for arguments, message in (
        (([], 3), "at least one token"),
        (([1], -3), "n_tokens"),
        (([1], 3, -1.0), "temperature"),
        (([1], 3, float("nan")), "temperature"),
        (([1], 3, 1.0, 0), "top_k"),
    ):
        prompt, n, *rest = arguments
        with pytest.raises(ValueError, match=message):
            model.generate(prompt, n, **dict(zip(("temperature", "top_k"), rest)))


# ---------------------------------------------------------------------------- settings of one call


@pytest.mark.parametrize("attention", ["fused", "explicit"])
def test_a_call_may_have_its_own_mask_scale_and_causality(attention):
    model, tokens = small(attention=attention), text(2, 5)
    as_made = model(tokens).numpy()
    assert_allclose(model(tokens, mask=np.tri(5, dtype=bool), causal=False).numpy(), as_made, rtol=1e-5, atol=1e-7)
    other = small(attention=attention, scale=1.0)
    for part in other.blocks:
        part.attn.causal = False
    assert_array_equal(model(tokens, causal=False, scale=1.0).data, other(tokens).data)
    assert_array_equal(model(tokens).data, as_made)  # a call leaves nothing behind
