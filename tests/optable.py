"""The table of operations: one row is one way of calling one operation.

A row gives arrays (`make(rng)`), the call on tensors (`row(*tensors)`) and the same in plain NumPy
(`row.ref`).  Whoever checks a property of every operation loops over ROWS: values, gradients, dtypes,
shapes without entries, memory, other devices, PyTorch.  Floats among the arrays become tensors,
integers and booleans (indices, masks, targets) are passed as they are.  Inputs stay away from kinks
and ties, where central differences say nothing; those are tested in ops/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tinygrad_attn as ta

Make = Callable[[np.random.Generator], list[np.ndarray]]


@dataclass(frozen=True)
class Row:
    """`empty` and `scalar`: the shapes of inputs without entries and of 0-d inputs, where the operation
    takes them (an array stands for itself).  half: float16 is precise enough for a comparison."""

    op: str
    make: Make
    ref: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    note: str = ""
    empty: tuple[Any, ...] | None = None
    scalar: tuple[Any, ...] | None = None
    half: bool = True

    def __call__(self, *tensors: Any) -> Any:
        return (self.call or getattr(ta, self.op))(*tensors, **self.settings)

    def reference(self, *arrays: Any) -> Any:
        return self.ref(*arrays, **self.settings)

    def __str__(self) -> str:
        said = ",".join(f"{k}={v}" for k, v in self.settings.items()) + self.note
        return f"{self.op}[{said}]".replace(" ", "") if said else self.op


def inputs(shapes: tuple[Any, ...]) -> list[np.ndarray]:
    """Arrays for a row's `empty` or `scalar`: numbers that every operation takes, no two alike."""
    return [np.full(s, 0.5 + 0.2 * i) if isinstance(s, tuple) else s for i, s in enumerate(shapes)]


# ---------------------------------------------------------------------------- where inputs come from


def normal(*shapes: tuple[int, ...]) -> Make:
    return lambda rng: [rng.standard_normal(s) for s in shapes]


def positive(*shapes: tuple[int, ...]) -> Make:
    return lambda rng: [rng.uniform(0.5, 2.0, s) for s in shapes]


def off_zero(*shapes: tuple[int, ...]) -> Make:
    """Both signs, at least 0.3 from 0."""
    return lambda rng: [rng.uniform(0.3, 2.0, s) * rng.choice([-1.0, 1.0], s) for s in shapes]


def apart(*shapes: tuple[int, ...]) -> Make:
    """No two entries of all the arrays closer than 0.1, so nothing ties."""

    def make(rng: np.random.Generator) -> list[np.ndarray]:
        sizes = [int(np.prod(s)) for s in shapes]
        values = np.split(rng.permutation(np.arange(sum(sizes)) * 0.13 - 1.0), np.cumsum(sizes)[:-1])
        return [v.reshape(s) for v, s in zip(values, shapes)]

    return make


def with_fixed(make: Make, *fixed: Any) -> Make:
    """The arrays of `make`, then indices or masks."""
    return lambda rng: [*make(rng), *[np.array(f) for f in fixed]]


ROWS: list[Row] = []


def row(op: str, make: Make, ref: Callable[..., Any], call: Callable[..., Any] | None = None, **more: Any) -> None:
    known = {k: more.pop(k) for k in ("note", "empty", "scalar", "half") if k in more}
    ROWS.append(Row(op, make, ref, more, call, **known))


# ---------------------------------------------------------------------------- elementwise

ONE = {"empty": ((0, 3),), "scalar": ((),)}
TWO = {"empty": ((0, 3), (3,)), "scalar": ((), ())}
PAIRS = [((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((), (2, 2)), ((1,), (1, 3))]

for a, b in PAIRS:
    more = {"note": f"{a}{b}", **TWO}
    row("add", normal(a, b), np.add, **more)
    row("sub", normal(a, b), np.subtract, **more)
    row("mul", normal(a, b), np.multiply, **more)
    row("div", off_zero(a, b), np.divide, **more)
    row("pow", positive(a, b), np.power, **more)
    row("maximum", apart(a, b), np.maximum, **more)
    row("minimum", apart(a, b), np.minimum, **more)

row("pow", normal((2, 3)), lambda x: x**3, lambda x: x**3, note="x**3", **ONE)
row("pow", positive((2, 3)), lambda x: x**-1.5, lambda x: x**-1.5, note="x**-1.5", **ONE)
row("pow", off_zero((2, 3)), lambda x: x**-2.0, lambda x: x ** np.full((2, 3), -2.0), note="negative_base")
row("pow", normal((2, 3)), lambda x: 2.0**x, lambda x: 2.0**x, note="2**x", **ONE)
row("neg", normal((2, 3)), np.negative, **ONE)
row("abs", off_zero((2, 3)), np.abs, **ONE)
row("sign", off_zero((2, 3)), np.sign, **ONE)
row("exp", normal((2, 3)), np.exp, **ONE)
row("expm1", normal((2, 3)), np.expm1, **ONE)
row("log", positive((2, 3)), np.log, **ONE)
row("log1p", positive((2, 3)), np.log1p, **ONE)
row("sqrt", positive((2, 3)), np.sqrt, **ONE)
row("sin", normal((2, 3)), np.sin, **ONE)
row("cos", normal((2, 3)), np.cos, **ONE)
row("clip", apart((3, 4)), lambda x, low, high: np.clip(x, low, high), low=-0.55, high=0.25, **ONE)
row("clip", apart((3, 4)), lambda x, high: np.minimum(x, high), high=0.25, **ONE)
row("astype", normal((2, 3)), lambda x, dtype: x, dtype="float64", **ONE)
CHOICE = np.array([[True, False, True], [False, False, True]])
row("where", with_fixed(normal((2, 3), (2, 3)), CHOICE), lambda x, y, c: np.where(c, x, y), lambda x, y, c: ta.where(c, x, y),
    scalar=((), (), np.array(True)), empty=((0, 3), (3,), np.zeros((0, 3), bool)))  # fmt: skip
row("where", with_fixed(normal((3,), (2, 1)), CHOICE), lambda x, y, c: np.where(c, x, y), lambda x, y, c: ta.where(c, x, y),
    note="broadcast")  # fmt: skip

# ---------------------------------------------------------------------------- activations


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


row("tanh", normal((2, 3)), np.tanh, **ONE)
row("sigmoid", normal((2, 3)), sigmoid, **ONE)
row("relu", off_zero((2, 3)), lambda x: np.maximum(x, 0), **ONE)
row("gelu", normal((2, 3)), lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), **ONE)

# ---------------------------------------------------------------------------- reductions


def logsumexp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def norm(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
    return np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))


EMPTY_FOR: dict[Any, Any] = {1: ((0, 3, 2),), -1: ((0, 3, 2),), (0, 2): ((2, 0, 2),)}  # what is reduced has entries
for axis, keepdims in ((None, False), (1, False), (-1, True), ((0, 2), False), ((0, -1), True)):
    some: dict[str, Any] = {} if axis is None else {"axis": axis}
    some |= {"keepdims": True} if keepdims else {}
    some |= {"scalar": ((),) if axis is None else None, "empty": EMPTY_FOR.get(axis)}
    row("mean", normal((2, 3, 2)), np.mean, **some)
    row("var", normal((2, 3, 2)), np.var, **some)
    row("std", normal((2, 3, 2)), np.std, **some)
    row("max", apart((2, 3, 2)), np.max, **some)
    row("min", apart((2, 3, 2)), np.min, **some)
    some["empty"] = ((2, 0, 2),)
    row("sum", normal((2, 3, 2)), np.sum, **some)
    row("prod", off_zero((2, 3, 2)), np.prod, **some)
    row("norm", normal((2, 3, 2)), norm, **some)
    row("logsumexp", normal((2, 3, 2)), logsumexp, **some | {"empty": EMPTY_FOR.get(axis)})
row("var", normal((3, 4)), np.var, axis=0, ddof=1)
row("std", normal((3, 4)), np.std, axis=-1, ddof=1, keepdims=True)
row("cumsum", normal((2, 3)), np.cumsum, axis=0, empty=((0, 3),))
row("cumsum", normal((2, 3)), lambda x: np.cumsum(x, -1), empty=((2, 0),))

# ---------------------------------------------------------------------------- shape

row("reshape", normal((2, 6)), lambda x, shape: x.reshape(shape), shape=(3, -1), empty=((0, 6),))
row("reshape", normal((1, 1)), lambda x, shape: x.reshape(shape), shape=(), scalar=((),))
row("transpose", normal((2, 3)), np.transpose, **ONE)
row("transpose", normal((2, 3, 4)), np.transpose, axes=(1, -1, 0), empty=((2, 0, 3),))
row("swapaxes", normal((2, 3, 4)), np.swapaxes, axis1=-1, axis2=0, empty=((2, 0, 3),))
row("squeeze", normal((1, 3, 1)), np.squeeze, **ONE)
row("squeeze", normal((1, 3, 1)), np.squeeze, axis=-1)
row("expand_dims", normal((2, 3)), np.expand_dims, axis=1, empty=((0, 3),))
row("expand_dims", normal((2, 3)), np.expand_dims, axis=(0, -1), **ONE)
row("broadcast_to", normal((3, 1)), np.broadcast_to, shape=(2, 3, 4), scalar=((),))
row("broadcast_to", normal((1, 3)), np.broadcast_to, shape=(0, 3), empty=((0, 3),))
row("flip", normal((2, 3)), np.flip, **ONE)
row("flip", normal((2, 3)), np.flip, axis=-1, empty=((0, 3),))
row("pad", normal((2, 3)), lambda x, pad_width, value: np.pad(x, pad_width, constant_values=value),
    pad_width=((1, 0), (2, 1)), value=7.0, empty=((0, 3),))  # fmt: skip
row("pad", normal((2, 3)), lambda x, pad_width: np.pad(x, pad_width) if x.ndim else x, pad_width=1, **ONE)
row("unpad", normal((3, 5)), lambda x, pad_width: x[1:, 2:-1], pad_width=((1, 0), (2, 1)), empty=((1, 3),))
row("concatenate", normal((2, 1), (2, 3)), lambda x, y, axis: np.concatenate([x, y], axis),
    lambda *t, axis: ta.concatenate(t, axis), axis=-1, empty=((0, 1), (0, 3)))  # fmt: skip
row("stack", normal((2, 3), (2, 3), (2, 3)), lambda *a, axis: np.stack(a, axis),
    lambda *t, axis: ta.stack(t, axis), axis=1)  # fmt: skip
row("stack", normal((2,), (2,)), lambda *a, axis: np.stack(a, axis), lambda *t, axis: ta.stack(t, axis), axis=-1,
    empty=((0,), (0,)), scalar=((), ()))  # fmt: skip
row("split", normal((2, 6)), lambda x, parts: np.split(x, parts, -1), parts=3, empty=((2, 0),))
row("split", normal((5, 2)), lambda x, parts, axis: np.split(x, parts, axis), parts=[1, 3], axis=0)

# ---------------------------------------------------------------------------- products of matrices

for a, b in [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)),
             ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((1, 2, 3), (2, 3, 1))]:  # fmt: skip
    row("matmul", normal(a, b), np.matmul, note=f"{a}{b}", empty=(tuple(0 if n == 2 else n for n in a), b))
row("matmul", normal((2, 3), (3, 2)), np.matmul, note="no_inner", empty=((2, 2, 0), (0, 3)))
row("matmul", normal((2, 3), (3, 2)), np.matmul, note="no_columns", empty=((2, 2, 3), (3, 0)))
for subscripts, *shapes in [
    ("ij,jk->ik", (2, 3), (3, 2)), ("bhqd,bhkd->bhqk", (1, 2, 2, 3), (1, 2, 3, 3)), ("i,j,k->jik", (2,), (3,), (2,)),
    ("ij->", (2, 3)), ("ij->j", (2, 3)), ("...ij,...jk->...ik", (2, 2, 3), (3, 2)), ("ij,jk", (2, 3), (3, 2)),
    ("...ij,...ij->...i", (2, 1, 2, 3), (3, 2, 3)), ("ij,ij->ij", (1, 3), (2, 3)), (",i->i", (), (3,)),
]:  # fmt: skip
    row("einsum", normal(*shapes), lambda *a, subscripts: np.einsum(subscripts, *a),
        lambda *t, subscripts: ta.einsum(subscripts, *t), subscripts=subscripts)  # fmt: skip

# ---------------------------------------------------------------------------- picking entries

for note, index in {
    "int": 1, "slice": slice(1, None), "negative_step": slice(None, None, -2), "none": (None, 0, None), "ellipsis": (..., 1),
    "mixed": (slice(None), None, ..., 0), "empty_slice": slice(2, 2), "true": True,
}.items():  # fmt: skip
    row("getitem", normal((3, 2, 4)), lambda x, i=index: x[i], lambda x, i=index: x[i], note=note)
WITH_ARRAYS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "repeats": (lambda x, i: x[i], ([0, 2, 2, -1],)),
    "pairs": (lambda x, i, j: x[i, j], ([1, 1, 0], [1, -1, 0])),
    "boolean": (lambda x, m: x[m], ([True, False, True],)),
    "boolean_2d": (lambda x, m: x[m], ([[True, False], [False, False], [True, True]],)),
    "around_a_slice": (lambda x, i, j: x[i, :, j], ([0, 0, 2], [3, 3, 1])),
    "array_none_step": (lambda x, i: x[i, None, ::-1], ([[0, 1], [1, 1]],)),
    "nothing": (lambda x, i: x[i], (np.zeros(0, int),)),
}
for note, (pick, arrays) in WITH_ARRAYS.items():
    row("getitem", with_fixed(normal((3, 2, 4)), *arrays), pick, pick, note=note)


def scattered(x: np.ndarray, values: np.ndarray, indices: np.ndarray, axis: int = -1) -> np.ndarray:
    out = x.copy()
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = indices[place]
        out[tuple(target)] += values[place]
    return out


def rows_added(x: np.ndarray, idx: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, x.dtype)
    np.add.at(out, idx, x)
    return out


NO = np.zeros((0, 3), int)
row("add_at", with_fixed(normal((3, 2)), [1, 1, 3]), rows_added, shape=(4, 2), empty=((0, 2), np.zeros(0, int)))
row("take_along_axis", with_fixed(normal((2, 3)), [[0, 2, 2, 0], [1, -1, 0, 0]]), lambda x, i: np.take_along_axis(x, i, -1),
    empty=((0, 3), NO))  # fmt: skip
row("take_along_axis", with_fixed(normal((3, 2)), [[2, 1]]), np.take_along_axis, axis=0)
row("take_along_axis", with_fixed(normal((3, 2)), [[1, 1]]), np.take_along_axis, axis=1, note="broadcast")
row("scatter_add", with_fixed(normal((2, 3), (2, 4)), [[0, 2, 2, 0], [1, 2, 0, 0]]), scattered,
    lambda x, v, i: ta.scatter_add(x, i, v), empty=((0, 3), (0, 3), NO))  # fmt: skip
row("embedding", with_fixed(normal((4, 2)), [[2, 0], [2, 2]]), lambda W, i: W[i], empty=((4, 2), NO))
row("embedding_sum", with_fixed(normal((2, 2, 3)), [[2, 0], [2, 2]]), rows_added, shape=(4, 3), empty=((0, 3, 3), NO))

# ---------------------------------------------------------------------------- softmax, masks, normalisation, loss


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True, initial=-9.0))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x: Any, gain: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * gain + bias


def cross_entropy(z: Any, t: Any, ignore_index: int = -100, label_smoothing: float = 0.0) -> np.ndarray:
    log_p, n = np.log(softmax(z)).reshape(-1, z.shape[-1]), z.shape[-1]
    wanted = np.eye(n)[np.clip(t, 0, n - 1)].reshape(-1, n) * (1 - label_smoothing) + label_smoothing / n
    counted = (t != ignore_index).reshape(-1)
    return -(wanted * log_p).sum(-1)[counted].sum() / max(counted.sum(), 1)


MASK = np.array([[True, False, False], [False, True, False]])
for axis in (-1, 0):
    row("softmax", normal((2, 3)), softmax, axis=axis, empty=((2, 0),))
    row("log_softmax", normal((2, 3)), lambda x, axis: np.log(softmax(x, axis)), axis=axis, empty=((0, 3),))
row("masked_fill", with_fixed(normal((2, 3)), MASK), lambda x, m, value: np.where(m, value, x), value=-2.0,
    empty=((0, 3), np.zeros((0, 3), bool)), scalar=((), np.array(True)))  # fmt: skip
row("masked_fill", with_fixed(normal((3,)), MASK), lambda x, m, value: np.where(m, value, x), value=0.0,
    note="broadcast")  # fmt: skip
row("tril", normal((2, 3, 3)), np.tril, empty=((0, 3),))
row("triu", normal((3, 4)), np.triu, k=1, empty=((0, 3),))
row("layer_norm", normal((2, 4)), layer_norm, empty=((0, 4),))
row("layer_norm", normal((2, 3, 4), (4,), (4,)), layer_norm, eps=1e-3, empty=((0, 4), (4,), (4,)))
row("layer_norm", normal((3, 4), (4,)), layer_norm, note="gain")
row("layer_norm", normal((3, 4), (4,)), lambda x, b: layer_norm(x, bias=b), lambda x, b: ta.layer_norm(x, bias=b),
    note="bias")  # fmt: skip
row("cross_entropy", with_fixed(normal((3, 4)), [1, 3, 1]), cross_entropy, empty=((0, 4), np.zeros(0, int)))
row("cross_entropy", with_fixed(normal((2, 2, 4)), [[1, -1], [0, 0]]), cross_entropy, ignore_index=-1,
    label_smoothing=0.1)  # fmt: skip
row("cross_entropy", with_fixed(normal((4,)), 2), cross_entropy, note="one_row")
