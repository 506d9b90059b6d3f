"""Reading GPT-2 checkpoints: both spellings of the names, and errors that name the tensor."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tinygrad_attn as ta

VOCAB, CONTEXT, D, LAYERS = 7, 5, 4, 2


def checkpoint(prefix="", hidden=16, head=None, buffers=False):
    draws = np.random.default_rng(0)
    shapes = {"wte.weight": (VOCAB, D), "wpe.weight": (CONTEXT, D), "ln_f.weight": (D,), "ln_f.bias": (D,)}
    for i in range(LAYERS):
        block = {
            "ln_1.weight": (D,), "ln_1.bias": (D,), "ln_2.weight": (D,), "ln_2.bias": (D,),
            "attn.c_attn.weight": (D, 3 * D), "attn.c_attn.bias": (3 * D,), "attn.c_proj.weight": (D, D),
            "attn.c_proj.bias": (D,), "mlp.c_fc.weight": (D, hidden), "mlp.c_fc.bias": (hidden,),
            "mlp.c_proj.weight": (hidden, D), "mlp.c_proj.bias": (D,),
        }  # fmt: skip
        shapes |= {f"h.{i}.{name}": shape for name, shape in block.items()}
    tensors = {prefix + name: draws.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    if buffers:
        for i in range(LAYERS):
            tensors[f"{prefix}h.{i}.attn.bias"] = np.ones((1, 1, CONTEXT, CONTEXT), np.uint8)
            tensors[f"{prefix}h.{i}.attn.masked_bias"] = np.array(-1e4, np.float32)
    if head is not None:
        tensors["lm_head.weight"] = head
    return tensors


def read(tmp_path, tensors, config=None, **settings):
    ta.nn.write_tensors(tmp_path / "model.safetensors", tensors)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    return ta.nn.MiniGPT.from_gpt2(tmp_path, **settings)


@pytest.mark.parametrize("settings", [{}, {"prefix": "transformer."}, {"buffers": True}, {"hidden": 6}], ids=str)
def test_both_spellings(tmp_path, settings):
    tensors = checkpoint(**settings)
    model = read(tmp_path, tensors, {"n_head": 2, "layer_norm_epsilon": 1e-3})
    at = lambda name: tensors[settings.get("prefix", "") + name]
    assert_array_equal(model.tokens.W.data, at("wte.weight"))
    assert_array_equal(model.blocks[1].attn.W_QKV.data, at("h.1.attn.c_attn.weight"))
    assert_array_equal(model.blocks[0].mlp.down.W.data, at("h.0.mlp.c_proj.weight"))
    assert model.head is None and model.context == CONTEXT and model.blocks[0].attn.n_heads == 2
    assert model.norm.eps == model.blocks[1].norm2.eps == 1e-3
    assert model([1, 2, 3]).shape == (3, VOCAB)
    model.save(tmp_path / "ours.safetensors")
    assert_array_equal(ta.nn.MiniGPT.load(tmp_path / "ours.safetensors")([1, 2]).data, model([1, 2]).data)


def test_heads_from_an_argument_and_a_file_path(tmp_path):
    ta.nn.write_tensors(tmp_path / "weights.safetensors", checkpoint())
    with pytest.raises(ValueError, match="n_heads="):
        ta.nn.MiniGPT.from_gpt2(tmp_path / "weights.safetensors")
    assert ta.nn.MiniGPT.from_gpt2(tmp_path / "weights.safetensors", n_heads=4).blocks[0].attn.n_heads == 4


def test_a_free_head(tmp_path):
    head = np.random.default_rng(1).standard_normal((VOCAB, D)).astype(np.float32)
    model = read(tmp_path, checkpoint("transformer.", head=head), {"n_head": 2})
    assert_array_equal(model.head.W.data, head.T)
    tied = checkpoint()
    assert read(tmp_path, {**tied, "lm_head.weight": tied["wte.weight"]}, {"n_head": 2}).head is None


def test_what_does_not_fit_is_named(tmp_path):
    def error(changes, **settings):
        tensors = {name: array for name, array in {**checkpoint(), **changes}.items() if array is not None}
        with pytest.raises(ValueError) as caught:
            read(tmp_path, tensors, {"n_head": 2}, **settings)
        assert "model.safetensors" in str(caught.value)
        return str(caught.value)

    assert "missing: h.1.attn.c_proj.bias" in error({"h.1.attn.c_proj.bias": None})
    assert "unexpected: h.0.attn.rotary" in error({"h.0.attn.rotary": np.ones(2)})
    assert "h.0.mlp.c_proj.weight: expected (16, 4), got (4, 16)" in error({"h.0.mlp.c_proj.weight": np.ones((4, 16))})
    assert "h.1.attn.c_attn.weight: expected (4, 12), got (12, 4)" in error(
        {"h.1.attn.c_attn.weight": np.ones((12, 4))}
    )
    assert "wte.weight" in error({"wte.weight": None})
    assert "lm_head.weight: expected (7, 4), got (4, 7)" in error({"lm_head.weight": np.ones((4, 7))})
    assert 'with and without "transformer.": transformer.wpe.weight' in error(
        {"transformer.wpe.weight": np.ones((5, 4))}
    )
    both = error({"h.0.ln_1.bias": None, "h.7.ln_1.bias": np.ones(4)})
    assert "h.0.ln_1.bias" in both and "h.6.ln_1.weight" in both


def test_layers_that_the_config_announces_must_be_there(tmp_path):
    with pytest.raises(ValueError, match=r"missing: h\.2\.attn"):
        read(tmp_path, checkpoint(), {"n_head": 2, "n_layer": 3})


def test_a_truncated_file(tmp_path):
    read(tmp_path, checkpoint(), {"n_head": 2})
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"model\.safetensors: truncated: tensor 'wte\.weight'"):
        ta.nn.MiniGPT.from_gpt2(path)


@pytest.mark.parametrize(("text", "why"), [("{", "not JSON"), ("[]", "expected an object of settings, got a list")])
def test_a_config_that_is_none(tmp_path, text, why):
    read(tmp_path, checkpoint(), {"n_head": 2})
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=rf"config\.json: {why}"):
        ta.nn.MiniGPT.from_gpt2(tmp_path)


@pytest.mark.parametrize(
    "setting",
    [{"activation_function": "relu"}, {"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False}],
    ids=str,
)
def test_settings_that_would_change_the_numbers(tmp_path, setting):
    with pytest.raises(ValueError, match=rf"config\.json: {next(iter(setting))} = "):
        read(tmp_path, checkpoint(), {"n_head": 2, **setting})
