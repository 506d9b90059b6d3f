"""The doctor finds each planted fault, names its line, and finds nothing in healthy models."""

import inspect
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe
from tinygrad_attn.probe.doctor.finding import KINDS

from . import faults
from .faults import FAULTS
from .faults.attention import projected
from .faults.tape import Hidden
from .healthy import HEALTHY as KINDS_OF_HEALTH


def marked_line(plant):
    """``tape.py:12`` of the line marked FAULT in a function (or in the class that it uses)."""
    for thing in (plant, Hidden if plant is faults.private_parameter else plant):
        lines, first = inspect.getsourcelines(thing)
        for i, line in enumerate(lines):
            if "FAULT" in line:
                return f"{Path(inspect.getsourcefile(thing)).name}:{first + i}:"
    return None


def examine(plant, **settings):
    loss, params, *optimizer = plant()
    return probe.doctor(loss, params, *optimizer, **settings)


@pytest.mark.parametrize(("plant", "kind", "text"), FAULTS, ids=[plant.__name__ for plant, *_ in FAULTS])
def test_planted_fault(plant, kind, text):
    report = examine(plant)
    found = [finding for finding in report if finding.kind == kind]
    assert found, f"found {report.kinds}"
    assert any(text in finding.what + finding.change for finding in found), [finding.what for finding in found]
    if plant not in (faults.left_out_of_the_optimiser, faults.listed_twice, faults.tied_weights_in_two_optimisers):
        assert any(finding.where.startswith(marked_line(plant)) for finding in found), [f.where for f in found]
    for finding in report:
        assert finding.why and finding.change


def test_there_are_many():
    assert len(FAULTS) >= 60 and len({plant for plant, *_ in FAULTS}) == len(FAULTS)


# ---------------------------------------------------------------------------- healthy models


def healthy_mlp():
    x, targets = ta.randn(8, 4), np.arange(8) % 3
    layers = [ta.nn.Linear(4, 16, seed=0), ta.nn.Linear(16, 3, seed=1)]

    class MLP(ta.Module):
        def __init__(self):
            self.layers = layers

        def forward(self, x):
            return self.layers[1](ta.relu(self.layers[0](x)))

    model = MLP()
    return lambda: ta.cross_entropy(model(x), targets), model


def healthy_attention():
    _, params, qkv = projected()

    def loss():
        out, _ = ta.scaled_dot_product_attention(
            *qkv(), mask=ta.padding_mask(np.array([[8], [5], [3]]), 8), causal=True
        )
        return (out * out).mean()

    return loss, params


def healthy_block():
    model, x = ta.nn.Block(32, 4, seed=0, causal=True, dropout=0.1), ta.randn(3, 8, 32)
    return lambda: (model(x) * model(x)).mean(), model


def healthy_minigpt():
    model = ta.nn.MiniGPT(20, 16, d_model=32, n_heads=4, n_layers=2, seed=0)
    tokens = np.random.default_rng(0).integers(0, 20, (4, 17))
    return lambda: ta.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]), model


def healthy_additive_bias_and_float64():
    rng = np.random.default_rng(0)
    W = [ta.Tensor(rng.standard_normal((6, 6)) / 6**0.5, requires_grad=True) for _ in range(3)]
    x = ta.Tensor(rng.standard_normal((2, 5, 6)))
    bias = np.where(ta.causal_mask(5), 0.0, -np.inf)

    def loss():
        q, k, v = (x @ w for w in W)
        out, _ = ta.scaled_dot_product_attention(q, k, v, bias=bias)
        return (out * out).sum()

    return loss, W


def healthy_hand_written():
    """Scores, mask and softmax by hand; a where with a logarithm that is never used where it is singular."""
    _, params, qkv = projected()

    def loss():
        q, k, v = qkv()
        scores = ta.where(ta.causal_mask(8), q @ k.mT * 8**-0.5, -1e9)
        out = ta.softmax(scores) @ v
        return ta.where(out > 0, ta.log(ta.where(out > 0, out, 1.0)), out).mean()

    return loss, params


HEALTHY = [
    healthy_mlp,
    healthy_attention,
    healthy_block,
    healthy_minigpt,
    healthy_additive_bias_and_float64,
    healthy_hand_written,
    *KINDS_OF_HEALTH,
]


def test_there_are_many_kinds_of_health():
    assert len(KINDS_OF_HEALTH) >= 40


@pytest.mark.parametrize("make", HEALTHY, ids=[make.__name__ for make in HEALTHY])
@pytest.mark.parametrize("given", ["function", "loss"])
def test_no_finding_on_a_healthy_model(make, given):
    loss, params = make()
    report = probe.doctor(loss if given == "function" else loss(), params)
    assert not report, str(report)
    assert str(report).startswith("No finding.")


# ---------------------------------------------------------------------------- how it behaves


def test_nothing_is_changed():
    loss, params = healthy_block()
    before = {name: p.numpy().tobytes() for name, p in params.named_parameters()}
    made = loss()
    probe.doctor(made, params)
    assert all(p.grad is None for p in params.parameters())
    assert before == {name: p.numpy().tobytes() for name, p in params.named_parameters()}
    made.backward()  # the graph is still there
    assert sys.getprofile() is None


def test_from_the_loss_alone():
    """Without the function the cut is still found by the constant that enters, and it says what it could not see."""
    loss, params = faults.cut_by_detach()
    report = probe.doctor(loss(), params)
    assert report.kinds == ["no gradient"] and "enters there as a constant" in report[0].what
    assert "h @ V" in report[0].where and "pass the function" in report.notes[0]
    for plant in (
        faults.scaled_by_d_model,
        faults.inverted_causal_mask,
        faults.a_float64_constant,
        faults.root_at_zero,
    ):
        loss, params = plant()
        kind = next(kind for p, kind, _ in FAULTS if p is plant)
        assert kind in probe.doctor(loss(), params).kinds


def test_too_late_and_for_nothing():
    loss, params = healthy_mlp()
    made = loss()
    made.backward()
    with pytest.raises(RuntimeError, match="too late"):
        probe.doctor(made, params)
    with pytest.raises(TypeError, match="expected a Tensor"):
        probe.doctor(lambda: 3.0, params)
    with pytest.raises(TypeError, match="got a Module; write"):
        probe.doctor(params)
    with pytest.raises(RuntimeError, match="one entry"):
        probe.doctor(lambda: ta.ones(3, requires_grad=True) * 2.0)
    report = probe.doctor(lambda: (ta.ones(3, requires_grad=True) * 2.0).sum())
    assert "no parameters were given" in report.notes[0]
    assert any("no parameters were given" in note for note in probe.doctor(loss, {}).notes)


def test_the_report_is_shown_everywhere(tmp_path):
    report = examine(faults.scaled_by_d_model)
    for part in ("scale at attention.py", "what", "why", "change"):
        assert part in str(report)
    report.table().to_html(tmp_path / "report.html")
    assert "&lt;" not in str(report) and "<table>" in report._repr_html_()


@pytest.mark.parametrize("hook", ["profile", "trace"])
def test_it_works_under_a_profiler_a_debugger_and_coverage(hook):
    def mine(frame, kind, value):
        return mine

    before = getattr(sys, f"get{hook}")()
    getattr(sys, f"set{hook}")(mine)
    try:
        assert examine(faults.cut_by_detach).kinds == ["no gradient"]
        assert getattr(sys, f"get{hook}")() is mine
    finally:
        getattr(sys, f"set{hook}")(before)


def test_it_works_in_a_thread():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(examine, faults.cut_by_detach).result().kinds == ["no gradient"]


def test_among_many_cuts_the_right_one_is_named():
    """Equal operations on different tensors are different events; what leaves the graph is no forward operation."""
    x, W, U = ta.randn(6, 4), ta.randn(4, 4, requires_grad=True), ta.randn(4, 4, requires_grad=True)

    def loss():
        float((x @ W).mean())
        h = (x @ W).detach()
        return (ta.log(h * 0.0) * (x @ U).detach() + x @ W @ U.detach()).mean()

    report = probe.doctor(loss, {"W": W, "U": U})
    assert report.kinds == ["no gradient", "NaN or inf in forward"]
    assert "(x @ U).detach()" in report[0].where or "U.detach()" in report[0].where
    assert "log gives -inf" in report[1].what


def test_every_text_is_used():
    """Each kind of the table is planted, but those that a fault cannot be made for in a few lines."""
    planted = {kind.partition(":")[0] for _, kind, _ in FAULTS}
    assert set(KINDS) - planted == {"backward failed", "not a tensor", "NaN or inf"}
    for name, texts in KINDS.items():
        assert isinstance(texts["why"], str) and isinstance(texts["change"], str), name


def test_fused_attention_is_looked_at_in_linear_memory():
    n = 2048
    q, k, v = (ta.randn(n, 4, requires_grad=True) for _ in range(3))
    loss = ta.fused_attention(q, k, v, causal=True, scale=3.0).mean()
    tracemalloc.start()
    try:
        assert "scale" in probe.doctor(loss, [q, k, v]).kinds
        assert tracemalloc.get_traced_memory()[1] < 0.7 * 8 * n * n  # one float64 array of all weights
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shift", range(1, 7))
def test_no_finding_with_other_numbers(shift, monkeypatch):
    """The same kinds of health, drawn anew: some 300 models."""
    first = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=None: first(None if seed is None else seed + 100 * shift))
    for make in KINDS_OF_HEALTH:
        report = probe.doctor(*make())
        assert not report, f"{make.__name__}: {report}"
