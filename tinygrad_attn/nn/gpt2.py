"""Reading a GPT-2 checkpoint in the Hugging Face layout into MiniGPT's names.

    wte.weight              tokens.W             (vocab, d)    h.N.ln_1.weight, .bias        blocks.N.norm1.gain, .bias
    wpe.weight              positions.W          (context, d)  h.N.ln_2.weight, .bias        blocks.N.norm2.gain, .bias
    h.N.attn.c_attn.weight  blocks.N.attn.W_QKV  (d, 3 d)      h.N.mlp.c_fc.weight, .bias    blocks.N.mlp.up.W, .b
    h.N.attn.c_attn.bias    blocks.N.attn.b_QKV  (3 d,)        h.N.mlp.c_proj.weight, .bias  blocks.N.mlp.down.W, .b
    h.N.attn.c_proj.weight  blocks.N.attn.W_O    (d, d)        ln_f.weight, .bias            norm.gain, .bias
    h.N.attn.c_proj.bias    blocks.N.attn.b_O    (d,)          lm_head.weight                head.W.T (d, vocab)

Names may begin with "transformer.".  The matrices of the blocks are stored (inputs, outputs), as ours are ("Conv1D");
lm_head alone is (outputs, inputs).  Without lm_head, or where it equals wte, the head is tied.  h.N.attn.bias and
h.N.attn.masked_bias, the causal mask of old files, are passed over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..files.tensors import read_tensors

_PREFIX = "transformer."
_OF_BLOCK = {
    "ln_1.weight": "norm1.gain", "ln_1.bias": "norm1.bias", "ln_2.weight": "norm2.gain", "ln_2.bias": "norm2.bias",
    "attn.c_attn.weight": "attn.W_QKV", "attn.c_attn.bias": "attn.b_QKV",
    "attn.c_proj.weight": "attn.W_O", "attn.c_proj.bias": "attn.b_O",
    "mlp.c_fc.weight": "mlp.up.W", "mlp.c_fc.bias": "mlp.up.b",
    "mlp.c_proj.weight": "mlp.down.W", "mlp.c_proj.bias": "mlp.down.b",
}  # fmt: skip
_ONCE = {"wte.weight": "tokens.W", "wpe.weight": "positions.W", "ln_f.weight": "norm.gain", "ln_f.bias": "norm.bias"}
_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")
_GELUS = ("gelu_new", "gelu_pytorch_tanh")  # two names of the tanh form


def read_gpt2(path: str | Path, n_heads: int | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(MiniGPT's settings, its state) from a folder or safetensors file.

    Errors: ValueError naming the file and each tensor that is missing, unexpected or of another shape, or a
    setting of config.json that MiniGPT does not have."""
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    config = _config(path)
    tensors = _named(path, read_tensors(path)[0])
    depth = 1 + max((int(name.split(".")[1]) for name in tensors if re.match(r"h\.\d+\.", name)), default=-1)
    depth = max(depth, config.get("n_layer", 0))
    names = {**_ONCE, **{f"h.{i}.{a}": f"blocks.{i}.{b}" for i in range(depth) for a, b in _OF_BLOCK.items()}}
    shapes = _shapes(path, tensors, names, depth)
    head = tensors.pop("lm_head.weight", None)
    missing, extra = sorted(names.keys() - tensors.keys()), sorted(tensors.keys() - names.keys())
    wrong = [
        f"{n}: expected {shapes[n]}, got {tensors[n].shape}"
        for n in names
        if n in tensors and tensors[n].shape != shapes[n]
    ]
    if head is not None and head.shape != shapes["wte.weight"]:
        wrong.append(f"lm_head.weight: expected {shapes['wte.weight']}, got {head.shape}")
    parts = [("missing", missing), ("unexpected", extra), ("wrong shape", wrong)]
    if found := [f"{what}: {', '.join(which)}" for what, which in parts if which]:
        raise ValueError(f"{path}: not the tensors of a GPT-2: {'; '.join(found)}")
    state = {names[name]: array for name, array in tensors.items()}
    tied = head is None or np.array_equal(head, tensors["wte.weight"])
    if head is not None and not tied:
        state["head.W"] = head.T
    vocab, d_model = shapes["wte.weight"]
    n_heads = config.get("n_head") if n_heads is None else n_heads
    if n_heads is None:
        raise ValueError(f"{path}: no config.json with n_head beside it; write from_gpt2(path, n_heads=...)")
    settings = {
        "vocab_size": vocab, "context": shapes["wpe.weight"][0], "d_model": d_model, "n_heads": n_heads,
        "n_layers": depth,
        "tie_head": tied, "packed": True, "bias": True,
        "d_hidden": shapes["h.0.mlp.c_fc.bias"][0] if depth else None,
        "eps": float(config.get("layer_norm_epsilon", 1e-5)),
    }  # fmt: skip
    return settings, state


def _named(path: Path, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors by their names without prefix, without the masks."""
    plain = {name.removeprefix(_PREFIX): array for name, array in tensors.items()}
    if len(plain) != len(tensors):
        twice = sorted(name for name in tensors if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in tensors)
        raise ValueError(f'{path}: with and without "{_PREFIX}": {", ".join(twice)}; expected one of them')
    return {name: array for name, array in plain.items() if not _BUFFER.fullmatch(name)}


def _shapes(
    path: Path, tensors: dict[str, np.ndarray], names: dict[str, str], depth: int
) -> dict[str, tuple[int, ...]]:
    """The shape each tensor should have, from those of wte, wpe and the first c_fc."""
    for name in ("wte.weight", "wpe.weight"):
        if name not in tensors or tensors[name].ndim != 2:
            got = f"shape {tensors[name].shape}" if name in tensors else "none"
            raise ValueError(f"{path}: not a GPT-2: expected a matrix {name}, missing or misshapen: got {got}")
    (vocab, d), context = tensors["wte.weight"].shape, tensors["wpe.weight"].shape[0]
    up = tensors.get("h.0.mlp.c_fc.weight")
    hidden = up.shape[-1] if up is not None and up.ndim == 2 else 4 * d
    of_block: dict[str, tuple[int, ...]] = {
        "attn.c_attn.weight": (d, 3 * d), "attn.c_attn.bias": (3 * d,), "attn.c_proj.weight": (d, d),
        "mlp.c_fc.weight": (d, hidden), "mlp.c_fc.bias": (hidden,), "mlp.c_proj.weight": (hidden, d),
    }  # fmt: skip
    once = {"wte.weight": (vocab, d), "wpe.weight": (context, d)}
    return {n: once.get(n) or of_block.get(n.split(".", 2)[-1] if n.startswith("h.") else n, (d,)) for n in names}


def _config(path: Path) -> dict[str, Any]:
    """config.json beside the file; {} without one.  What we cannot follow raises rather than changing the numbers."""
    file = path.with_name("config.json")
    if not file.exists():
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not JSON ({error})") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file}: expected an object of settings, got a {type(config).__name__}")
    asked = {
        "activation_function": (config.get("activation_function", "gelu_new"), _GELUS),
        "scale_attn_weights": (config.get("scale_attn_weights", True), (True,)),
        "scale_attn_by_inverse_layer_idx": (config.get("scale_attn_by_inverse_layer_idx", False), (False,)),
        "add_cross_attention": (config.get("add_cross_attention", False), (False,)),
    }
    for name, (value, known) in asked.items():
        if value not in known:
            raise ValueError(f"{file}: {name} = {value!r}; MiniGPT knows {', '.join(map(repr, known))}")
    return config
