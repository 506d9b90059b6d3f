"""A small GPT: embeddings, blocks of causal attention, a head that predicts the next token.

tokens (B, T) -> tokens.W[tokens] + positions.W[:T] -> blocks -> norm -> head -> logits (B, T, vocab_size)
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..autodiff.dtypes import plain
from ..autodiff.mode import no_grad
from ..autodiff.ops.index import getitem
from ..autodiff.ops.loss import cross_entropy
from ..autodiff.ops.mask import dropout as drop
from ..autodiff.tensor import Tensor
from ..files.tensors import read_tensors, write_tensors
from .block import Block
from .cache import KVCache
from .init import GPT_SIGMA, source
from .layers import Embedding, LayerNorm, Linear, Seed
from .module import Module
from .sample import pick

_KIND = "tinygrad_attn.MiniGPT"


class MiniGPT(Module):
    """A decoder-only transformer: pre-norm blocks, GELU (tanh form), learned positions, a final norm.

    vocab_size: how many tokens there are.  context: the most positions it reads.  seed: of all weights, N(0, 0.02^2).
    tie_head: the token table is the head too, logits = x W^T (free by default).  residual_init: the last matrix of
    each residual branch starts smaller by 1/sqrt(2 n_layers).  Further settings (d_hidden, n_kv_heads, bias,
    attention ...) go to Block and MultiHeadAttention.
    Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3.

    >>> import numpy as np, tinygrad_attn as ta
    >>> model = ta.nn.MiniGPT(vocab_size=65, context=32, seed=0)
    >>> model(np.zeros((2, 5), int)).shape, model.generate([1, 2], 3, seed=0).shape
    ((2, 5, 65), (5,))
    """

    def __init__(
        self,
        vocab_size: int,
        context: int,
        d_model: int = 64,
        n_heads: int = 4,
        n_layers: int = 4,
        seed: Seed = 0,
        *,
        tie_head: bool = False,
        residual_init: bool = False,
        dropout: float = 0.0,
        eps: float = 1e-5,
        **block: Any,
    ) -> None:
        if min(vocab_size, context, d_model, n_heads) < 1 or n_layers < 0:
            sizes = f"{vocab_size=}, {context=}, {d_model=}, {n_heads=}, {n_layers=}"
            raise ValueError(f"MiniGPT: expected positive sizes, got {sizes}")
        rng = source(seed)
        self.vocab_size, self.context, self.dropout = vocab_size, context, dropout
        self._settings = {
            "vocab_size": vocab_size, "context": context, "d_model": d_model, "n_heads": n_heads, "n_layers": n_layers,
            "tie_head": tie_head, "dropout": dropout, "eps": eps, **block,
        }  # fmt: skip
        self.tokens = Embedding(vocab_size, d_model, rng, GPT_SIGMA)
        self.positions = Embedding(context, d_model, rng, GPT_SIGMA)
        self.blocks = [
            Block(d_model, n_heads, rng, causal=True, dropout=dropout, eps=eps, **block) for _ in range(n_layers)
        ]
        self.norm = LayerNorm(d_model, eps)
        self.head = None if tie_head else Linear(d_model, vocab_size, bias=False, seed=rng, sigma=GPT_SIGMA)
        if residual_init:
            for part in self.blocks:
                for W in (part.attn.W_O, part.mlp.down.W):
                    W.data = W.numpy() / math.sqrt(2 * n_layers)

    def forward(self, tokens: Any, cache: list[KVCache] | None = None, **attention: Any) -> Tensor:
        """Integers (..., T) -> logits (..., T, vocab_size): at each place, for the token that comes next.

        cache: from ``new_cache``; then `tokens` continue the positions it holds.  mask, causal, scale: for this call,
        as in MultiHeadAttention's; each block gets them.

        Errors: ValueError for more positions than the context, IndexError for a token outside the vocabulary."""
        tokens = plain(tokens)
        tokens = tokens if hasattr(tokens, "dtype") else np.asarray(tokens, dtype=np.int64)
        if tokens.ndim < 1:
            raise ValueError("MiniGPT: expected tokens (..., T), got a single number; write [token]")
        start = len(cache[0]) if cache else 0
        stop = start + tokens.shape[-1]
        if stop > self.context:
            before = f" after {start} in the cache" if start else ""
            raise ValueError(
                f"MiniGPT: {tokens.shape[-1]} tokens{before} do not fit the context of {self.context} positions"
            )
        x = self.tokens(tokens) + getitem(self.positions.W, slice(start, stop))  # (..., T, d_model) + (T, d_model)
        x = drop(x, self.dropout, self.training).named("embedded")
        for i, block in enumerate(self.blocks):
            x = block(x, cache=cache[i] if cache else None, **attention)  #         (..., T, d_model)
        x = self.norm(x)
        logits = x @ self.tokens.W.mT if self.head is None else self.head(x)  #     (..., T, d_model) @ (d_model, vocab)
        return logits.named("logits")

    def loss(self, tokens: Any, targets: Any = None, ignore_index: int = -100) -> Tensor:
        """Cross entropy of the targets (..., T), in nats a token; by default each token's target is the next one.

        >>> import numpy as np, tinygrad_attn as ta
        >>> ta.nn.MiniGPT(10, 8, seed=0).loss(np.array([[1, 2, 3]])).item()  # about log 10
        2.3...
        """
        if targets is None:
            tokens = np.asarray(tokens) if isinstance(tokens, (list, tuple)) else plain(tokens)
            tokens, targets = tokens[..., :-1], tokens[..., 1:]
        return cross_entropy(self(tokens), plain(targets), ignore_index)

    def new_cache(self) -> list[KVCache]:
        """An empty key/value cache for each block."""
        return [KVCache(self.context) for _ in self.blocks]

    def generate(
        self,
        prompt: Any,
        n_tokens: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: Seed = None,
        cache: bool = True,
    ) -> np.ndarray:
        """The prompt (..., T) with `n_tokens` sampled tokens behind it, (..., T + n_tokens).

        temperature: divides the logits; 0 takes the likeliest token.  top_k: sample among the k likeliest.
        seed: None draws from the framework's generator.  cache: keep keys and values of earlier positions (the
        same tokens, faster).  Beyond the context, the last `context` tokens are read afresh for each new one.

        Errors: ValueError for an empty prompt, a negative n_tokens or temperature, top_k < 1."""
        text = np.asarray(plain(prompt))
        if text.size == 0 or text.ndim < 1:
            raise ValueError(f"generate: expected a prompt (..., T) of at least one token, got shape {text.shape}")
        if n_tokens < 0:
            raise ValueError(f"generate: expected n_tokens of at least 0, got {n_tokens}")
        training = {part: part.training for _, part in self.named_modules()}
        self.eval()
        try:
            return self._continued(
                text, n_tokens, temperature, top_k, source(seed), self.new_cache() if cache else None
            )
        finally:
            for part, was in training.items():
                part.training = was

    @no_grad()
    def _continued(
        self,
        text: np.ndarray,
        n_tokens: int,
        temperature: float,
        top_k: int | None,
        rng: np.random.Generator,
        cache: Any,
    ) -> np.ndarray:
        """The text (..., T) and `n_tokens` sampled tokens, (..., T + n_tokens)."""
        for _ in range(n_tokens):
            if cache is not None and text.shape[-1] <= self.context:
                logits = self(text[..., len(cache[0]) if cache else 0 :], cache)  # (..., new, vocab)
            else:
                logits = self(text[..., -self.context :])  #                         (..., T, vocab)
            new = pick(logits[..., -1, :].numpy(), temperature, top_k, rng)
            text = np.concatenate([text, new[..., None].astype(text.dtype)], axis=-1)
        return text

    # ------------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the weights and settings to one safetensors file; read it with ``MiniGPT.load``."""
        settings = json.dumps(self._settings, default=lambda number: number.item())
        write_tensors(path, self.state_dict(), {"kind": _KIND, "settings": settings})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model that ``save`` wrote.

        Errors: ValueError naming the file, KeyError or ValueError naming a missing, extra or misshapen tensor."""
        state, metadata = read_tensors(path)
        if metadata.get("kind") != _KIND:
            raise ValueError(f"{path}: not written by MiniGPT.save; a GPT-2 checkpoint is read by MiniGPT.from_gpt2")
        try:
            model = cls(**json.loads(metadata["settings"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: its settings make no MiniGPT: {error!r}") from error
        dtypes = {array.dtype for array in state.values() if array.dtype.kind == "f"}
        if len(dtypes) == 1:
            model.astype(dtypes.pop())
        model.load_state_dict(state)
        return model

    @classmethod
    def from_gpt2(cls, path: str | Path, n_heads: int | None = None) -> Self:
        """A GPT-2 checkpoint in the Hugging Face layout: a folder, or its safetensors file (gpt2.py says more).

        n_heads: needed where no config.json with "n_head" lies beside the file."""
        from .gpt2 import read_gpt2

        settings, state = read_gpt2(path, n_heads)
        model = cls(**settings)
        model.load_state_dict(state)
        return model
