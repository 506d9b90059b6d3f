"""The twin run: the same model, seed and data with and without 1/sqrt(d_k), compared along the chain.

    dL/dout -> dL/dmix -> dL/dweights -> dL/dscaled -> dL/dscores -> dL/dq -> dL/dW_Q
                                  the softmax      the factor

What saturation does shows between weights and scaled: there the softmax lets through what it will.
What the plain factor does shows between scaled and scores: it multiplies every row by the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..autodiff.arrays import to_host
from ..autodiff.random import manual_seed, restored
from ..autodiff.tensor import Tensor
from ..nn.module import Module
from ..show import Column
from ..show.numbers import number, percent
from ..show.table import Table, Tabled
from .meters import meter, rows
from .seen import Seen
from .watch import watch
from .zeros import row_norms

CHAIN = ("out", "mix", "weights", "scaled", "scores", "q", "W_Q")


class Variant:
    """One of the twins: its scale, its model, and what was seen."""

    def __init__(self, scale: Any, model: Any, seen: Seen) -> None:
        self.scale, self.model, self.seen = scale, model, seen

    def attentions(self) -> list[str]:
        """The paths of the attentions that ran."""
        return self.seen.attentions

    def gradient(self, path: str, step: str) -> np.ndarray | None:
        """dL/d(step), or None where this attention has no such step."""
        name = _join(path, step)
        if step == "W_Q" and name not in self.seen and _join(path, "W_QKV") in self.seen:
            attention = dict(self.model.named_modules())[path]
            return to_host(self.seen[_join(path, "W_QKV")].grad._data)[:, : attention.n_heads * attention.d_k]
        if name not in self.seen or not self.seen[name].visits[-1].wants:
            return None
        return to_host(self.seen[name].grad._data)

    def norms(self, path: str, step: str) -> np.ndarray | None:
        """The row norms of dL/d(step), all heads and rows in one line; of W_Q the one norm of the whole."""
        gradient = self.gradient(path, step)
        if gradient is None:
            return None
        wide = gradient.astype(np.float64)
        return row_norms(wide.reshape(1, -1)) if step == "W_Q" else row_norms(wide).reshape(-1)

    def saturation(self, path: str) -> dict[str, float]:
        """The standard deviation of what goes into softmax, and the meters, over all heads."""
        call = self.seen.attention(path)
        scores = to_host((call.steps.get("masked") or call.steps["scaled"]).data)
        visible = scores > -np.inf
        one = meter(rows(to_host(call.steps["weights"].data), visible))
        return {"score std": float(scores[visible].std()), "entropy": one.entropy, "jacobian": one.jacobian}

    def factor(self, path: str) -> float:
        """What the scores were multiplied by."""
        return self.seen.attention(path).scale()


class Twin(Tabled):
    """variants: one per scale; table(): the chain side by side."""

    def __init__(self, variants: list[Variant], dead: float) -> None:
        self.variants, self.dead = variants, dead

    def table(self) -> Table:
        """Per attention: what softmax gets and lets through, then each gradient's row-norm quantiles (median,
        5 and 95 %), the share of rows below `dead`, and the ratio of medians to the first variant."""
        found = []
        for path in self.variants[0].attentions():
            found += [self._saturation_row(path, what) for what in ("score std", "entropy", "jacobian")]
            for step in CHAIN:
                if step == "scores":
                    found.append(self._row(path, "x factor", [(v.factor(path),) * 3 + (None,) for v in self.variants]))
                norms = [v.norms(path, step) for v in self.variants]
                if all(n is not None and n.size for n in norms):
                    found.append(self._row(path, f"dL/d{step}", [self._quantiles(n, step) for n in norms]))
        columns = [Column("where", "where", left=True), Column("what", "what", left=True)]
        for i, variant in enumerate(self.variants):
            head = f"scale {_called(variant.scale)}\n"
            columns += [Column(f"median{i}", head + "median", _short), Column(f"low{i}", "\n5 %", _short)]
            columns += [Column(f"high{i}", "\n95 %", _short), Column(f"dead{i}", "\ndead", _share)]
            columns += [Column(f"ratio{i}", "ratio of\nmedians", _short)] if i else []
        notes = [
            f"dead: rows below {self.dead:g}.  Between weights and scaled: what saturation does.",
            "Between scaled and scores: the plain factor, the same for every row.",
            "dL/dW_Q is one norm for the whole matrix: it may be larger where most rows are dead,",
            "because the few live ones lack the factor",
        ]
        return Table("Twin run: same seed, same data", columns, found, notes)

    def _row(self, path: str, what: str, numbers: Sequence[tuple[Any, Any, Any, Any]]) -> dict[str, Any]:
        row: dict[str, Any] = {"where": path or "attention", "what": what}
        for i, (low, median, high, dead) in enumerate(numbers):
            ratio = median / numbers[0][1] if numbers[0][1] else float("nan")
            row |= {f"low{i}": low, f"median{i}": median, f"high{i}": high, f"dead{i}": dead, f"ratio{i}": ratio}
        return row

    def _saturation_row(self, path: str, what: str) -> dict[str, Any]:
        values = [variant.saturation(path)[what] for variant in self.variants]
        shown = {"entropy": "entropy / log keys", "jacobian": "softmax Jacobian"}.get(what, what)
        return self._row(path, shown, [(None, value, None, None) for value in values])

    def _quantiles(self, norms: np.ndarray | None, step: str) -> tuple[Any, Any, Any, Any]:
        assert norms is not None
        if step == "W_Q":
            return None, float(norms[0]), None, None
        low, median, high = (float(q) for q in np.quantile(norms, (0.05, 0.5, 0.95)))
        return low, median, high, float((norms < self.dead).mean())


def compare(
    make_model: Callable[[Any], Any],
    batch: Any,
    scale: Sequence[float | None] = (None, 1.0),
    *,
    loss: Callable[..., Tensor] | None = None,
    seed: int = 0,
    dead: float = 1e-3,
) -> Twin:
    """Run ``make_model(s)(batch)`` and its backward once for each s in `scale`, from the same seed.

    make_model: scale -> a Module, or any function of tensors.  batch: a tuple or dict of its arguments, or the one
    argument; Tensors in it are copied.  loss: loss(output, *batch) -> scalar; None: the output itself where it is one
    number, else an upstream gradient N(0, 1)/sqrt(last length), the same for all.  dead: a row norm below it is dead.
    The framework's random numbers are as before afterwards.

    Errors: RuntimeError when no attention with named steps ran.

    >>> import tinygrad_attn as ta
    >>> def make(scale):
    ...     return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, scale=scale)[0]
    >>> batch = [ta.randn(50, 64, requires_grad=True), ta.randn(50, 64), ta.randn(50, 8)]
    >>> table = compare(make, batch).table()
    >>> row = next(row for row in table.rows if row["what"] == "dL/dscaled")
    >>> row["median1"] < row["median0"]
    True
    """
    with restored():
        return Twin([_run(make_model, s, batch, loss, seed) for s in scale], dead)


def _run(
    make_model: Callable[[Any], Any], scale: Any, batch: Any, loss: Callable[..., Tensor] | None, seed: int
) -> Variant:
    manual_seed(seed)
    model = make_model(scale)
    manual_seed(seed + 1)
    named = {k: _copy(v) for k, v in batch.items()} if isinstance(batch, Mapping) else {}
    given = [] if named else [_copy(v) for v in (batch if isinstance(batch, (tuple, list)) else (batch,))]
    with watch(*([model] if isinstance(model, Module) else []), "*") as seen:
        out = model(*given, **named)
        first = out[0] if isinstance(out, tuple) else out
        if loss is not None:
            loss(out, *given, **named).backward()
        elif first.size == 1:
            first.backward()
        else:
            upstream = np.random.default_rng(seed).standard_normal(first.shape) / np.sqrt(first.shape[-1])
            first.backward(Tensor(upstream, dtype=first.dtype, device=first.device))
    found = Variant(scale, model, seen)
    if not found.attentions():
        raise RuntimeError(
            "compare: no attention ran: no tensor was named weights (see ta.scaled_dot_product_attention)"
        )
    return found


def _copy(value: Any) -> Any:
    return Tensor(value, value.requires_grad) if isinstance(value, Tensor) else value


def _join(path: str, step: str) -> str:
    return f"{path}.{step}" if path else step


def _called(scale: Any) -> str:
    return "1/sqrt(d_k)" if scale is None else f"{scale:g}"


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _short(value: float | None) -> str:
    return "" if value is None else "-" if value != value else number(value)
