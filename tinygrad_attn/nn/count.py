"""How many weights, and where: one row per parameter, and per head for multi-head attention."""

from __future__ import annotations

from typing import NamedTuple

from .attention import MultiHeadAttention
from .module import Module


class Row(NamedTuple):
    """heads, a_head: where a matrix is made of heads, how many, and the weights of one; else None."""

    name: str
    shape: tuple[int, ...] | None
    heads: int | None
    a_head: int | None
    weights: int


class ParameterTable:
    """Rows of (name, shape, heads, weights a head, weights); ``str()`` draws them, ``table["W_O"]`` finds one."""

    def __init__(self, rows: list[Row], total: int) -> None:
        self.rows, self.total = [*rows, Row("total", None, None, None, total)], total

    def __getitem__(self, name: str) -> Row:
        found = next((row for row in self.rows if row.name == name), None)
        if found is None:
            raise KeyError(f"no row {name!r}; there are {', '.join(row.name for row in self.rows)}")
        return found

    def __str__(self) -> str:
        by_heads = any(row.heads is not None for row in self.rows)
        head = ["", "shape", *(["heads", "a head"] if by_heads else []), "weights"]
        cells = [head]
        for row in self.rows:
            shape = " x ".join(map(str, row.shape)) if row.shape is not None else ""
            numbers = (row.heads, row.a_head, row.weights) if by_heads else (row.weights,)
            cells.append([row.name, shape, *("" if n is None else f"{n:,}" for n in numbers)])
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join(
            "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip()
            for line in cells
        )

    __repr__ = __str__


def count_parameters(module: Module) -> ParameterTable:
    """The parameters of a module with their counts, each shared one once; of a multi-head attention by heads.

    >>> import tinygrad_attn as ta
    >>> print(ta.nn.count_parameters(ta.nn.MultiHeadAttention(64, 4, seed=0)))
               shape  heads  a head  weights
    W_Q      64 x 64      4   1,024    4,096
    W_K      64 x 64      4   1,024    4,096
    W_V      64 x 64      4   1,024    4,096
    Q, K, V                   3,072   12,288
    W_O      64 x 64                   4,096
    total                             16,384
    """
    rows = _by_heads(module) if isinstance(module, MultiHeadAttention) else []
    if not rows:
        rows = [Row(name, parameter.shape, None, None, parameter.size) for name, parameter in module.named_parameters()]
    return ParameterTable(rows, sum(parameter.size for parameter in module.parameters()))


def _by_heads(mha: MultiHeadAttention) -> list[Row]:
    """Q, K, V and O of one attention; a tied matrix has one row ("W_Q = W_K")."""
    tied = {
        None: ["W_Q", "W_K", "W_V"],
        "qk": ["W_Q = W_K", "W_V"],
        "kv": ["W_Q", "W_K = W_V"],
        "qkv": ["W_Q = W_K = W_V"],
    }
    sizes = {"Q": (mha.n_heads, mha.d_k), "K": (mha.n_kv_heads, mha.d_k), "V": (mha.n_kv_heads, mha.d_v)}
    rows = []
    for name in tied[mha.tie]:
        heads, width = sizes[name[2]]
        rows.append(Row(name, (mha.d_model, heads * width), heads, mha.d_model * width, mha.d_model * heads * width))
    a_head = sum(row.a_head or 0 for row in rows) if mha.n_kv_heads == mha.n_heads else None
    rows.append(Row("Q, K, V", None, None, a_head, sum(row.weights for row in rows)))
    rows.append(Row("W_O", mha.W_O.shape, None, None, mha.W_O.size))
    rows += [Row(name, b.shape, None, None, b.size) for name, b in mha.named_parameters() if name.startswith("b_")]
    return rows
