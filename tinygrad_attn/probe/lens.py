"""The bilinear lens: scores = x M c^T with M = W_Q W_K^T, one matrix per head.

rank           at most d_k: a head looks at that many directions
singular       how strong each of them is
symmetric      share of |M|^2 in S = (M + M^T)/2: "what is like me"; its eigenvalues > 0 attract, < 0 repel
antisymmetric  the rest, A = (M - M^T)/2: "what I look for is not what I am"; |S|^2 + |A|^2 = |M|^2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.arrays import to_host
from ..nn.module import Module
from ..show import Column
from ..show.numbers import number, percent
from ..show.table import Table, Tabled


@dataclass(frozen=True)
class Form:
    """One head's M (d_model, d_model) and what it is made of; singular values and eigenvalues fall."""

    matrix: np.ndarray
    rank: int
    singular: np.ndarray  # (min(d_k, d_model),)
    eigenvalues: np.ndarray  # of the symmetric part, (d_model,)
    symmetric: float
    antisymmetric: float
    effective_rank: float  # (sum s)^2 / sum s^2: how many singular values count

    @property
    def condition(self) -> float:
        """Largest over smallest singular value (inf where rank is lost)."""
        return float(self.singular[0] / self.singular[-1]) if self.rank == len(self.singular) else float("inf")


def form(W_Q: Any, W_K: Any) -> Form:
    """The bilinear form of one head: W_Q, W_K (d_model, d_k); computed in float64.

    Errors: ValueError for matrices of different shapes.

    >>> found = form(np.eye(3)[:, :2], np.eye(3)[:, :2])
    >>> found.rank, found.symmetric, found.eigenvalues.tolist()
    (2, 1.0, [1.0, 1.0, 0.0])
    """
    W_Q, W_K = (to_host(getattr(W, "_data", W)).astype(np.float64) for W in (W_Q, W_K))
    if W_Q.ndim != 2 or W_Q.shape != W_K.shape:
        raise ValueError(f"form: expected W_Q and W_K of one shape (d_model, d_k), got {W_Q.shape} and {W_K.shape}")
    M = W_Q @ W_K.T
    # W = Q R: M = Q_q (R_q R_k^T) Q_k^T, so its singular values are those of a small (d_k, d_k) matrix
    small = np.asarray(np.linalg.qr(W_Q, mode="r")) @ np.asarray(np.linalg.qr(W_K, mode="r")).T
    singular = np.linalg.svd(small, compute_uv=False)
    bound = (singular[0] if singular.size else 0.0) * max(W_Q.shape) * np.finfo(np.float64).eps
    S, A = (M + M.T) / 2, (M - M.T) / 2
    whole = float((M * M).sum())
    share = float((S * S).sum()) / whole if whole else float("nan")
    squares = float((singular**2).sum())
    return Form(
        matrix=M,
        rank=int((singular > bound).sum()),
        singular=singular,
        eigenvalues=np.linalg.eigvalsh(S)[::-1],
        symmetric=share,
        antisymmetric=float((A * A).sum()) / whole if whole else float("nan"),
        effective_rank=float(singular.sum() ** 2) / squares if squares else 0.0,
    )


class Lens(Tabled):
    """heads: name of an attention -> one Form per head."""

    def __init__(self, heads: dict[str, list[Form]]) -> None:
        self.heads = heads

    def __getitem__(self, name: str) -> list[Form]:
        if name not in self.heads:
            raise KeyError(f"no attention named {name!r}; there are {', '.join(map(repr, self.heads))}")
        return self.heads[name]

    def table(self) -> Table:
        rows = [
            {
                "name": name,
                "head": head,
                "rank": one.rank,
                "effective": one.effective_rank,
                "largest": float(one.singular[0]),
                "smallest": float(one.singular[-1]),
                "symmetric": one.symmetric,
                "antisymmetric": one.antisymmetric,
                "top": float(one.eigenvalues[0]),
                "bottom": float(one.eigenvalues[-1]),
            }
            for name, forms in self.heads.items()
            for head, one in enumerate(forms)
        ]
        columns = [
            Column("name", "name", left=True),
            Column("head", "head"),
            Column("rank", "rank"),
            Column("effective", "of\nthem", "{:.1f}".format),
            Column("largest", "sing.\nmax", number),
            Column("smallest", "\nmin", number),
            Column("symmetric", "sym-\nmetric", _share),
            Column("antisymmetric", "anti-\nsymm.", _share),
            Column("top", "eigen\nmax", number),
            Column("bottom", "\nmin", number),
        ]
        notes = [
            "of them: effective rank, (sum s)^2 / sum s^2 of the singular values s",
            "shares of |M|^2; eigenvalues of the symmetric part (M + M^T)/2",
        ]
        return Table("M = W_Q W_K^T", columns, rows, notes)


def lens(model: Module) -> Lens:
    """The bilinear forms of every attention in `model` (tied, packed and grouped weights included).

    Errors: ValueError for a model without attention.

    >>> import tinygrad_attn as ta
    >>> found = lens(ta.nn.MultiHeadAttention(8, 2, seed=0, tie="qk"))
    >>> round(found[""][0].symmetric, 6), found[""][0].rank
    (1.0, 4)
    """
    found = {path: _forms(module) for path, module in model.named_modules() if hasattr(module, "n_kv_heads")}
    if not found:
        raise ValueError("lens: there is no attention in this model (no module with W_Q and W_K)")
    return Lens(found)


def _forms(attention: Any) -> list[Form]:
    heads, kv_heads, d_k = attention.n_heads, attention.n_kv_heads, attention.d_k
    if attention.packed:
        packed = to_host(attention.W_QKV._data)
        W_Q, W_K = packed[:, : heads * d_k], packed[:, heads * d_k : (heads + kv_heads) * d_k]
    else:
        W_Q, W_K = to_host(attention.W_Q._data), to_host(attention.W_K._data)
    group = heads // kv_heads
    cut = [slice(head * d_k, (head + 1) * d_k) for head in range(heads)]
    return [form(W_Q[:, cut[head]], W_K[:, cut[head // group]]) for head in range(heads)]


def _share(value: float) -> str:
    return percent(round(value, 4))
