"""A program gives what the step gives, bit for bit, also as a file of its own; what cannot be noted is an error."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optable import ROWS

import tinygrad_attn as ta
from tinygrad_attn.nn import MiniGPT
from tinygrad_attn.optim import SGD, AdamW, clip_grad_norm
from tinygrad_attn.programs.errors import ProgramError

N, D = 6, 4


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(getattr(a, "_data", a)), np.asarray(getattr(b, "_data", b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def attention_step(seed: int = 3, fused: bool = False, **settings: Any) -> tuple[Callable[..., Any], list[ta.Tensor]]:
    rng = np.random.default_rng(seed)
    weights = [ta.Tensor(rng.standard_normal((8, D)).astype(np.float32), requires_grad=True) for _ in range(3)]
    W_Q, W_K, W_V = weights

    def step(x: Any) -> ta.Tensor:
        x = ta.Tensor(x)
        attend = ta.fused_attention if fused else ta.scaled_dot_product_attention
        out = attend(x @ W_Q, x @ W_K, x @ W_V, **settings)
        loss = ((out if fused else out[0]) ** 2).mean()
        loss.backward()
        return loss

    return step, weights


def test_it_prints_forward_and_backward_with_names_and_lines() -> None:
    step, _ = attention_step()
    program = ta.program(step, numbers(2, N, 8))
    text, calls = str(program), program.calls()
    assert text.index("forward:") < text.index("scores (2, 6, 6) = matmul(") < text.index("backward:")
    assert "dL/dx of softmax(" in text and "test_program.py:" in text and "backward keeps" in text
    assert "weights (2, 6, 6) = " in calls and " = x" not in calls.splitlines()[0]
    assert "@ W_Q   # matmul, test_program.py:" in calls
    assert "dL/dy of matmul" in calls and "operations" in calls


def test_arrays_are_plain_again_afterwards() -> None:
    step, weights = attention_step()
    loss = step(numbers(2, N, 8))
    first = [w.grad._data for w in weights]
    for w in weights:
        w.grad = None
    ta.program(step, numbers(2, N, 8))
    assert all(type(w._data) is np.ndarray and type(w.grad._data) is np.ndarray for w in weights)
    assert all(same(w.grad, g) for w, g in zip(weights, first))
    assert type(np.empty(3)) is np.ndarray and loss.item()


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"causal": True},
    "mask": {"mask": np.arange(N * N).reshape(N, N) % 3 > 0},
    "empty row": {"mask": np.arange(N)[:, None] > 1},
    "bias": {"bias": numbers(N, N, seed=5)},
    "unscaled": {"scale": 30.0, "causal": True},
    "dropout": {"dropout": 0.3},
}


@pytest.mark.parametrize("fused", [False, True], ids=["explicit", "fused"])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_as_noted_is_attention_as_run(kind: str, fused: bool) -> None:
    eager, weights = attention_step(fused=fused, **MASKS[kind])
    noted, copies = attention_step(fused=fused, **MASKS[kind])
    x = numbers(2, N, 8)
    ta.manual_seed(1)
    loss = eager(x)
    ta.manual_seed(1)
    program = ta.program(noted, x)  # the lines are run, and compared with the recorded run, before it is given
    assert program.answers()[0] == f"result: {loss.item()!r}"
    assert all(same(a.grad, b.grad) for a, b in zip(weights, copies))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_operation(row: Any) -> None:
    arrays = row.make(np.random.default_rng(0))

    def step(tensors: list[Any]) -> Any:
        out = row(*tensors)
        (sum((part * part).sum() for part in out) if isinstance(out, (list, tuple)) else (out * out).sum()).backward()
        return out

    def fresh() -> list[Any]:
        return [ta.Tensor(a, requires_grad=True) if a.dtype.kind == "f" else a for a in map(np.asarray, arrays)]

    ta.manual_seed(0)
    eager = fresh()
    out = step(eager)
    ta.manual_seed(0)
    copies = fresh()
    program = ta.program(lambda: step(copies))
    for a, b in zip(eager, copies):
        assert not isinstance(a, ta.Tensor) or a.grad is None or same(a.grad, b.grad)
    if isinstance(out, ta.Tensor):
        assert same(dict(program.expected)["result"], out)


@pytest.mark.parametrize("optimizer", [AdamW, SGD])
def test_training_steps_as_noted_are_training_steps(optimizer: Any) -> None:
    def trainer() -> tuple[Any, Any]:
        model = MiniGPT(11, 8, 16, 2, 1, seed=0)
        updates = optimizer(model.parameters(), 1e-2)

        def step(tokens: Any, targets: Any) -> float:
            updates.zero_grad()
            loss = ta.cross_entropy(model(tokens), targets)
            loss.backward()
            clip_grad_norm(model.parameters(), 0.1)
            updates.step()
            return float(loss)

        return model, step

    (eager_model, eager), (noted_model, noted) = trainer(), trainer()
    tokens, targets = np.random.default_rng(0).integers(11, size=(2, 4, 8))
    for _ in range(3):
        loss = eager(tokens, targets)
        program = ta.program(noted, tokens, targets)
        assert program.answers()[0] == f"result: {loss!r}"
        for a, b in zip(eager_model.parameters(), noted_model.parameters()):
            assert same(a, b) and same(a.grad, b.grad)
    assert "update:" in str(program) and optimizer.__name__ in str(program)


@pytest.mark.parametrize("large", [False, True])
def test_the_file_needs_numpy_alone(tmp_path: Path, large: bool) -> None:
    step, _ = attention_step(causal=True)
    program = ta.program(step, numbers(100 if large else 2, N, 8))
    path = program.save(tmp_path)
    tree = ast.parse(path.read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [ast.unparse(node) for node in imported] == ["import numpy as np"]
    assert (tmp_path / "program.npz").exists() == large
    done = subprocess.run([sys.executable, "-I", path], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == program.answers(), done.stderr
    assert "dL/dx of softmax" in program.source()


def test_another_branch_is_never_run() -> None:
    step, weights = attention_step(fused=True, causal=True)
    x = numbers(2, N, 8) / 4
    program = ta.program(step, x)
    assert program.guards and all(": assert " in guard for guard in program.guards)
    before = [w.numpy() for w in weights]
    other = numbers(2, N, 8, seed=9) / 4
    assert program.run(other, trace=True).norms[1] > 0
    for w in weights:
        w.grad = None
    expected = step(other)
    found = program.run(other)
    assert same(found.arrays["result"], expected)
    assert same(found.arrays["gradient of W_Q"], weights[0].grad)
    assert all(same(a, b) for a, b in zip(before, weights))
    with pytest.raises(ProgramError, match="another"):  # scores beyond +-30 take another way
        program.run(other * 100)
    with pytest.raises(ProgramError, match=r"expected float32 \(2, 6, 8\), got float32 \(1, 6, 8\)"):
        program.run(other[:1])


def test_a_number_read_in_mid_step_is_an_error_that_names_the_line() -> None:
    w = ta.Tensor([1.0, 2.0], requires_grad=True)

    def step() -> ta.Tensor:
        total = (w * w).sum()
        half = total.item() / 2
        return (w * half).sum()

    with pytest.raises(ProgramError, match=r"half = total\.item"):
        ta.program(step)
    assert type(w._data) is np.ndarray
    assert ta.program(lambda: (w * w).sum().item()).answers() == ["result: 5.0"]


def test_what_numpy_does_not_see_is_an_error() -> None:
    hidden = (numbers(2),)  # arrays in a tuple cannot be replaced

    def step(x: np.ndarray) -> ta.Tensor:
        np.multiply(x, 2, out=hidden[0])
        hidden[0][...] += 1
        return ta.Tensor(x + hidden[0])

    with pytest.raises(ProgramError, match="past NumPy's functions"):
        ta.program(step, numbers(2))


def test_programs_that_differ_in_the_scale_differ_in_two_lines() -> None:
    x = numbers(2, N, 8)
    (scaled, _), (unscaled, _) = attention_step(), attention_step(scale=1.0)
    one, two = ta.program(scaled, x), ta.program(unscaled, x)
    assert one.diff(one) == one.diff(one, numbers=True) == "the same lines"
    rows = one.diff(two, numbers=True).splitlines()
    assert [row[0] + row.rpartition("* ")[2][:3] for row in rows if row[0] != "="] == ["-0.5", "+1.0", "-0.5", "+1.0"]
    assert any("weights" in row and " | " in row for row in rows)
    explicit, fused = one, ta.program(attention_step(fused=True)[0], x)
    assert "fused_attention" in explicit.diff(fused)


def test_the_page_lights_names_and_folds_modules() -> None:
    model = MiniGPT(11, 8, 16, 2, 1, seed=0)
    tokens = np.arange(8)[None]
    program = ta.program(lambda: ta.cross_entropy(model(tokens), tokens).backward())
    page = program.html()
    assert page.startswith("<!doctype html>") and "<summary>forward blocks.0.attn" in page
    assert page.count('data-name="blocks_0_attn_W_Q"') >= 2 and "<script>" in program._repr_html_()


def test_an_example_may_be_a_tensor() -> None:
    def square(x: ta.Tensor) -> ta.Tensor:
        loss = (x * x).sum()
        loss.backward()
        return loss

    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    program = ta.program(square, x)
    assert type(x._data) is np.ndarray and x.grad.numpy().tolist() == [2.0, 4.0]
    found = program.run(ta.Tensor([3.0, 4.0])).arrays
    assert found["gradient of x"].tolist() == [6.0, 8.0] and found["result"] == 25.0
    assert program.run().arrays["result"] == 5.0


def test_an_array_may_meet_a_tensor_from_the_left() -> None:
    w = ta.Tensor([1.0, 2.0], requires_grad=True)

    def step(x: np.ndarray) -> list[Any]:
        loss = (np.exp(x * w) + x @ w).sum()
        loss.backward()
        return [loss, ta.Tensor([1.0], requires_grad=True) * 2]

    x = numbers(2)
    loss, _ = step(x)
    first, w.grad = w.grad, None
    program = ta.program(step, x)
    assert same(w.grad, first) and program.answers()[0] == f"result[0]: {loss.item()!r}"
    assert program.run(x * 2).arrays["result[0]"] == step(x * 2)[0].item()


def test_names_that_meet_stay_apart() -> None:
    tensors = {name: ta.Tensor([float(i)], requires_grad=True) for i, name in enumerate(("np", "v1", "x", "x_2"), 2)}
    others = {"x": ta.Tensor([7.0], requires_grad=True)}

    def step() -> ta.Tensor:
        total = others["x"] * 1.0
        for tensor in tensors.values():
            total = total * tensor
        return total

    program = ta.program(step)  # checked: the lines give what the run gave
    names = [program.name(v) for line in program.lines for v in line.reads]
    assert {"np_2", "x", "x_2"} <= set(names) and len({*names}) == 9
    assert program.answers() == ["result: 840.0"]
