"""GPT-2 of `transformers`, small and random, saved to safetensors and read by ``MiniGPT.from_gpt2``."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
library = pytest.importorskip("safetensors.numpy")
pytestmark = pytest.mark.peers

SIZES = {"vocab_size": 61, "n_positions": 16, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_inner": 40}


def relative(ours, theirs):
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


def both(folder, **settings):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        **SIZES, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, initializer_range=0.2, **settings
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.2)
    theirs.save_pretrained(folder, safe_serialization=True)
    return theirs, ta.nn.MiniGPT.from_gpt2(folder)


@pytest.mark.parametrize("attention", ["explicit", "fused"])
@pytest.mark.parametrize("settings", [{}, {"tie_word_embeddings": False}, {"layer_norm_epsilon": 1e-2}], ids=str)
def test_logits_loss_and_every_gradient(tmp_path, settings, attention):
    theirs, ours = both(tmp_path, **settings)
    for block in ours.blocks:
        block.attn.attention = attention
    ids = np.random.default_rng(0).integers(61, size=(3, 16))
    result = theirs(torch.tensor(ids), labels=torch.tensor(ids))
    result.loss.backward()
    loss = ours.loss(ids)
    loss.backward()
    assert relative(ours(ids).numpy(), result.logits.detach().numpy()) < 1e-5
    assert abs(loss.item() - result.loss.item()) < 1e-5 * result.loss.item()
    gradients = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    seen = 0
    for name, parameter in ours.named_parameters():
        right = gradients[theirs_name(name)]
        right = right.T if name == "head.W" else right
        assert relative(parameter.grad.numpy(), right) < 1e-5, name
        seen += 1
    assert seen == len(gradients)


def theirs_name(name):
    from tinygrad_attn.nn.gpt2 import _OF_BLOCK, _ONCE

    if name == "head.W":
        return "lm_head.weight"
    if name.startswith("blocks."):
        _, i, rest = name.split(".", 2)
        return f"transformer.h.{i}.{ {b: a for a, b in _OF_BLOCK.items()}[rest] }"
    return "transformer." + {b: a for a, b in _ONCE.items()}[name]


def test_the_bare_model_has_names_without_prefix(tmp_path):
    theirs, ours = both(tmp_path)
    theirs.transformer.save_pretrained(tmp_path / "bare", safe_serialization=True)
    names = ta.nn.read_tensors(tmp_path / "bare" / "model.safetensors")[0]
    assert not any(name.startswith("transformer.") for name in names)
    bare = ta.nn.MiniGPT.from_gpt2(tmp_path / "bare")
    np.testing.assert_array_equal(bare([1, 2, 3]).data, ours([1, 2, 3]).data)


def test_greedy_generation(tmp_path):
    theirs, ours = both(tmp_path)
    prompt = np.array([[5, 9, 2]])
    right = theirs.generate(torch.tensor(prompt), max_new_tokens=10, do_sample=False, pad_token_id=0).numpy()
    np.testing.assert_array_equal(ours.generate(prompt, 10, temperature=0), right)


def test_our_files_and_the_library_s(tmp_path):
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array(True),
        "empty": np.zeros((0, 2), np.int16),
    }
    ta.nn.write_tensors(tmp_path / "ours", tensors, {"k": "v"})
    library.save_file(tensors, str(tmp_path / "theirs"), metadata={"k": "v"})
    found, (read, metadata) = library.load_file(str(tmp_path / "ours")), ta.nn.read_tensors(tmp_path / "theirs")
    assert metadata == {"k": "v"}
    for name, array in tensors.items():
        for got in (found[name], read[name]):
            assert got.dtype == array.dtype
            np.testing.assert_array_equal(got, array)


def test_bfloat16_files_of_the_library(tmp_path):
    from safetensors.torch import save_file

    values = torch.randn(5, 7).to(torch.bfloat16)
    save_file({"w": values}, str(tmp_path / "a"))
    np.testing.assert_array_equal(ta.nn.read_tensors(tmp_path / "a")[0]["w"], values.float().numpy())
