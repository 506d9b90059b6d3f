"""The same small GPT in PyTorch: pre-norm, bias-free attention, GELU (tanh form), learned positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        q, k, v = (part.view(B, T, self.n_heads, -1).transpose(1, 2) for part in self.qkv(x).split(d, 2))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, d))


class Block(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(d_model), Attention(d_model, n_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocab_size: int, context: int, d_model: int, n_heads: int, n_layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(context, d_model)
        self.blocks = nn.ModuleList([Block(d_model, n_heads) for _ in range(n_layers)])
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def with_weights_of(model: Any) -> GPT:
    """The PyTorch model with the weights of a MiniGPT (whose matrices are (in, out), and q, k, v apart)."""
    state = {name: torch.from_numpy(array) for name, array in model.state_dict().items()}
    vocab_size, d_model = state["tokens.W"].shape
    ours = GPT(vocab_size, model.context, d_model, model.blocks[0].attn.n_heads, len(model.blocks)).to(
        state["tokens.W"].dtype
    )
    renamed = {
        "tokens.weight": state["tokens.W"],
        "positions.weight": state["positions.W"],
        "head.weight": state["head.W"].T,
    }
    renamed |= {"norm.weight": state["norm.gain"], "norm.bias": state["norm.bias"]}
    for i in range(len(model.blocks)):
        b = f"blocks.{i}"
        qkv = torch.cat([state[f"{b}.attn.W_{name}"] for name in "QKV"], dim=1)
        renamed |= {f"{b}.attn.qkv.weight": qkv.T, f"{b}.attn.out.weight": state[f"{b}.attn.W_O"].T}
        for norm in ("norm1", "norm2"):
            renamed |= {f"{b}.{norm}.weight": state[f"{b}.{norm}.gain"], f"{b}.{norm}.bias": state[f"{b}.{norm}.bias"]}
        for part in ("up", "down"):
            renamed |= {
                f"{b}.{part}.weight": state[f"{b}.mlp.{part}.W"].T,
                f"{b}.{part}.bias": state[f"{b}.mlp.{part}.b"],
            }
    ours.load_state_dict(renamed)
    return ours


def optimizer_of(model: GPT, lr: float, weight_decay: float, fused: bool | None = None) -> torch.optim.AdamW:
    """AdamW that decays matrices only."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, fused=fused)
