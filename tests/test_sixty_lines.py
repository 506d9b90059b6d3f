"""The engine in sixty lines against the engine: the same forwards and rules, every row of the table of operations."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optable import ROWS, Row

import tinygrad_attn as ta
from tinygrad_attn.autodiff.graph import Op

FILE = Path(__file__).parents[1] / "examples" / "00_the_engine_in_sixty_lines.py"
SPEC = importlib.util.spec_from_file_location("sixty_lines", FILE)
assert SPEC is not None and SPEC.loader is not None
mini = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mini)

SIGNS = {
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__pow__": "pow",
    "__matmul__": "matmul",
}


def smaller(made: Op) -> Any:
    """The engine's operation as one of the small engine's: the same forward, each rule asking by name."""

    def call(*args: Any, **settings: Any) -> Any:
        count = len(args[0]) if made.variadic else 0
        tensors = [f"t{i}" for i in range(count)]
        names = [*tensors, *made.arguments[1:]] if made.variadic else list(made.arguments)
        traced = tensors or [made.arguments[i] for i in made.traced]

        def whole(given: dict[str, Any]) -> dict[str, Any]:
            given = dict(made.defaults) | given
            return given | {made.arguments[0]: [given.pop(t) for t in tensors]} if tensors else given

        def forward(**given: Any) -> Any:
            out = made.forward(**whole(given))
            return out[0] if made.saves else out

        forward.__name__ = made.name
        empty = inspect.Parameter.empty
        forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=made.defaults.get(n, empty))
                for n in names
            ]
        )
        given = list(
            inspect.signature(forward).bind(*(*args[0], *args[1:]) if made.variadic else args, **settings).arguments
        )

        def rule_for(i: int) -> Any:
            def rule(g: Any, **saved: Any) -> Any:
                out = np.asarray(saved.pop("out"))
                values = whole(saved)
                known = values | {"out": out} | {f"{n}_shape": getattr(v, "shape", ()) for n, v in values.items()}
                known["saved"] = made.forward(**values)[1] if made.saves else None
                if made.joint is None:
                    return np.asarray(made.rules[i](g, *[known[need] for need in made.needs[i]]))
                needs = tuple(name in given and saved.get(name) is not None for name in traced)
                return np.asarray(made.joint(g, needs=needs, **{need: known[need] for need in made.needs[0]})[i])

            asks = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("g", *given, "out")]
            rule.__signature__ = inspect.Signature(asks)  # type: ignore[attr-defined]
            return rule

        small = mini.op(**{name: rule_for(i) for i, name in enumerate(traced)})(forward)
        return small(*args[0], *args[1:], **settings) if made.variadic else small(*args, **settings)

    return call


@pytest.fixture
def small_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ta.exp` and `x * y` mean the small engine's while a row is called."""
    for name in [row.op for row in ROWS]:
        made = getattr(getattr(ta, name, None), "op", None)
        if made is not None:
            monkeypatch.setattr(ta, name, smaller(made))
    for sign, name in SIGNS.items():
        monkeypatch.setattr(mini.Tensor, sign, getattr(ta, name), raising=False)
    monkeypatch.setattr(mini.Tensor, "__rpow__", lambda y, x: ta.pow(x, y), raising=False)
    monkeypatch.setattr(mini.Tensor, "__getitem__", lambda x, key: ta.getitem(x, key), raising=False)


def inputs(row: Row, make: Any) -> list[Any]:
    return [make(a) if a.dtype.kind == "f" else a for a in row.make(np.random.default_rng(0))]


MADE_OF_OPERATIONS = {"split", "dropout", "einsum"}  # their public form calls several, or draws


@pytest.mark.parametrize("row", [row for row in ROWS if row.op not in MADE_OF_OPERATIONS], ids=str)
def test_a_row_gives_the_same_value_and_gradients(row: Row, small_names: None, monkeypatch: pytest.MonkeyPatch) -> None:
    small = inputs(row, lambda a: mini.Tensor(a, requires_grad=True))
    out = row(*small)
    seed = np.random.default_rng(1).standard_normal(out.data.shape)
    for node, gradient in mini.walk(out.node, seed):
        node.grad = gradient
    monkeypatch.undo()
    ours = inputs(row, lambda a: ta.Tensor(a, requires_grad=True))
    expected = row(*ours)
    expected.backward(seed)
    np.testing.assert_allclose(out.data, expected.numpy(), rtol=1e-12)
    for x, y in zip(small, ours):
        if isinstance(y, ta.Tensor):
            assert y.grad is not None
            np.testing.assert_allclose(x.node.grad, y.grad.numpy(), rtol=1e-10, atol=1e-14)


def test_it_keeps_to_sixty_lines() -> None:
    text = FILE.read_text(encoding="utf-8")
    engine = text[: text.index("# -----")]
    docs = [
        line
        for node in ast.walk(ast.parse(engine))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    ]
    lines = [i for i, line in enumerate(engine.splitlines(), 1) if line.strip() and not line.strip().startswith("#")]
    assert len(set(lines) - set(docs)) <= 60


def test_its_attention_loses_the_score_gradient_without_the_scale() -> None:
    rng = np.random.default_rng(0)
    q, k = (mini.Tensor(rng.standard_normal((8, 512)), requires_grad=True) for _ in range(2))
    norms = []
    for scale in (512**-0.5, 1.0):
        weights = mini.softmax(mini.mul(mini.matmul(q, mini.transpose(k)), scale))
        seed = rng.standard_normal((8, 8))
        reached = {node.name: g for node, g in mini.walk(weights.node, seed)}
        norms.append(np.median(np.linalg.norm(reached["mul"], axis=-1)))  # of the row of a query
    assert norms[1] < norms[0] / 10
