"""watch: it sees what is there, changes nothing, and answers a wrong question with words."""

import csv
import io
import json
import os
import sys

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe


def block(sigma=0.5, **settings):
    return ta.nn.Block(16, 4, seed=1, causal=True, sigma=sigma, **settings)


def inputs(n=5, seed=0):
    return ta.Tensor(np.random.default_rng(seed).standard_normal((2, n, 16)), dtype="float32")


def loss_of(model, x):
    out = model(x)
    return (out * out).mean()


def test_values_and_gradients_are_those_of_retain_grad():
    q = ta.randn(3, 4, requires_grad=True)
    k, v = ta.randn(5, 4), ta.randn(5, 2)
    with probe.watch() as seen:
        scores = (q @ k.mT).named("mine")
        scores.retain_grad()
        (ta.softmax(scores) @ v).sum().backward()
    np.testing.assert_array_equal(seen["mine"].value.numpy(), scores.numpy())
    np.testing.assert_array_equal(seen["mine"].grad.numpy(), scores.grad.numpy())


def test_a_watched_run_equals_an_unwatched_one_bit_for_bit():
    found = []
    for watched in (False, True):
        model, x = block(), inputs()
        if watched:
            with probe.watch(model, "*") as seen:
                loss = loss_of(model, x)
                loss.backward()
            assert "attn.scores" in seen
        else:
            loss = loss_of(model, x)
            loss.backward()
        found.append([loss.numpy()] + [p.grad.numpy() for p in model.parameters()])
    for plain, looked_at in zip(*found):
        assert plain.tobytes() == looked_at.tobytes()


def test_fused_attention_under_watch_shows_what_the_explicit_one_shows():
    arrays = [np.random.default_rng(i).standard_normal((2, 3, 6, 4)).astype("float32") for i in range(3)]
    shown, bits = [], []
    for watched in (True, False):
        q, k, v = (ta.Tensor(a, requires_grad=True) for a in arrays)
        if watched:
            with probe.watch("weights", "scores") as seen:
                (ta.fused_attention(q, k, v, causal=True) * v).sum().backward()
            shown.append(seen)
        else:
            (ta.fused_attention(q, k, v, causal=True) * v).sum().backward()
        bits.append([t.grad.numpy().tobytes() for t in (q, k, v)])
    assert bits[0] == bits[1]
    q, k, v = (ta.Tensor(a, requires_grad=True) for a in arrays)
    with probe.watch("weights", "scores") as seen:
        (ta.scaled_dot_product_attention(q, k, v, causal=True)[0] * v).sum().backward()
    for name in ("weights", "scores"):
        np.testing.assert_allclose(shown[0][name].value.numpy(), seen[name].value.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(shown[0][name].grad.numpy(), seen[name].grad.numpy(), rtol=1e-4, atol=1e-5)


def test_every_head_apart_and_parameters_by_name():
    model = block()
    with probe.watch(model, "*.scores", "*.W_Q") as seen:
        loss_of(model, inputs()).backward()
    whole = seen["attn.scores"]
    assert whole.heads == 4 and whole.grad.shape == (2, 4, 5, 5)
    np.testing.assert_array_equal(whole.head(2).grad.numpy(), whole.grad.numpy()[:, 2])
    np.testing.assert_array_equal(seen["attn.W_Q"].grad.numpy(), model.attn.W_Q.grad.numpy())
    assert [row["head"] for row in seen.table().rows if row["name"] == "attn.scores"].count(3) == 1
    with pytest.raises(IndexError, match="has 4 head"):
        whole.head(4)


def test_a_model_tells_the_heads_of_a_sequence_without_batch():
    mha = ta.nn.MultiHeadAttention(8, 2, seed=0)
    with probe.watch(mha, "scores") as seen:
        mha(ta.randn(3, 8)).sum().backward()
    assert seen["scores"].heads == 2
    with probe.watch("scores") as seen:
        mha(ta.randn(3, 8)).sum().backward()
    assert seen["scores"].heads == 1


def test_several_passes_are_kept():
    model = block()
    with probe.watch(model, "*.scores", "*.W_Q") as seen:
        for seed in range(3):
            model.zero_grad()
            loss_of(model, inputs(seed=seed)).backward()
    assert len(seen["attn.scores"]) == len(seen["attn.W_Q"]) == 3
    first, last = seen["attn.scores"][0], seen["attn.scores"][-1]
    assert not np.array_equal(first.grad.numpy(), last.grad.numpy())
    assert {row["visit"] for row in seen.table(None).rows} == {0, 1, 2}


def test_a_pass_that_was_not_there():
    with probe.watch("twice") as seen:
        for _ in range(2):
            (ta.ones(2, requires_grad=True) * 2.0).named("twice").sum().backward()
    for ask in (lambda: seen["twice"][2], lambda: seen.table(2), lambda: seen["twice"][-3]):
        with pytest.raises(IndexError, match=r"twice went by 2 time\(s\), asked for visit"):
            ask()


def test_parameters_keep_no_hook_after_the_block():
    model = block()
    with probe.watch(model, "*.W_Q") as seen:
        loss_of(model, inputs()).backward()
    loss_of(model, inputs()).backward()
    assert len(seen["attn.W_Q"]) == 1


def test_watches_nest():
    with probe.watch("a") as outer, probe.watch("b") as inner:
        x = ta.ones(2, requires_grad=True)
        (2 * x).named("a").named("b").sum().backward()
    assert outer.names == ["a"] and inner.names == ["b"]


# ---------------------------------------------------------------------------- too early, too late, for nothing


def test_too_early():
    model = block()
    with probe.watch(model, "*.scores") as seen:
        loss = loss_of(model, inputs())
        with pytest.raises(RuntimeError, match=r"call loss.backward\(\) first"):
            _ = seen["attn.scores"].grad
        assert "no gradient yet (call loss.backward()): attn.scores" in str(seen.table())
    loss.backward()  # backward may come later
    assert np.isfinite(seen["attn.scores"].grad.numpy()).all()


def test_too_late():
    model = block()
    loss = loss_of(model, inputs())
    with pytest.raises(RuntimeError, match="saw nothing"), probe.watch(model, "*.scores"):
        loss.backward()


def test_a_name_that_does_not_exist():
    model = block()
    with pytest.raises(KeyError, match=r"near names: attn\.scores"), probe.watch(model, "*.scores", "attn.scorse"):
        loss_of(model, inputs())
    with probe.watch(model, "*.scores") as seen:
        loss_of(model, inputs())
    with pytest.raises(KeyError, match=r"near names: attn\.scores"):
        seen["attn.score"]
    with pytest.raises(KeyError, match="not asked for"):
        seen["attn.out"]


def test_without_a_graph():
    with probe.watch("s") as seen, ta.no_grad():
        ta.ones(3).named("s")
    with pytest.raises(RuntimeError, match="no_grad"):
        _ = seen["s"].grad
    with pytest.raises(TypeError, match="patterns of names"):
        probe.watch(3)


def test_a_failing_block_shows_its_own_error():
    with pytest.raises(ZeroDivisionError), probe.watch("*.scores"):
        _ = 1 / 0
    from tinygrad_attn.autodiff.mode import current

    assert current().watcher is None


# ---------------------------------------------------------------------------- writing


def test_csv_json_html_and_hostile_names(tmp_path):
    with probe.watch() as seen:
        x = ta.ones((2, 2), requires_grad=True)
        (3 * x).named("<script>alert(1)</script>").sum().backward()
    assert next(csv.DictReader(io.StringIO(seen.to_csv())))["name"] == "<script>alert(1)</script>"
    assert json.loads(seen.to_json(tmp_path / "a.json"))["rows"][0]["rows"] == 2
    seen.to_html(tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "<script>" not in text and "&lt;script&gt;" in text and "http" not in text
    assert "<table>" in seen._repr_html_()


def test_worst_first():
    with probe.watch() as seen:
        x = ta.ones((2, 2), requires_grad=True)
        a, b = (x * 1.0).named("fine"), (x * 1.0).named("broken")
        (a.sum() + (b * np.array([[np.inf, 1.0], [1.0, 1.0]])).sum()).backward()
    assert [row["name"] for row in seen.table().rows] == ["broken", "fine"]
    assert seen.table().rows[0]["nonfinite"] == 1


# ---------------------------------------------------------------------------- cost when nothing is watched


PACKAGE = os.path.dirname(ta.__file__)


def python_calls(step):
    calls = []
    step()  # warm

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):  # the tests' tools make calls of their own
            calls.append((frame.f_code.co_qualname, frame.f_code.co_filename))

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return calls


def test_with_nothing_watched_a_step_makes_the_same_calls():
    model, x = block(), inputs()
    optimizer = ta.optim.SGD(model.parameters(), lr=0.0)

    def step():
        optimizer.zero_grad()
        loss_of(model, x).backward()
        optimizer.step()

    before = python_calls(step)
    with probe.watch(model, "*"):
        loss_of(model, x).backward()
    assert python_calls(step) == before
    assert not [name for name, file in before if file.startswith(os.path.dirname(probe.__file__))]


def test_the_steps_of_an_attention_are_asked_for_by_its_path():
    model, x = block(), inputs()
    with probe.watch(model, "*") as seen:
        loss_of(model, x).backward()
    assert seen.attentions == ["attn"]
    call = seen.attention("attn")
    assert call.steps["weights"].data.shape == (2, 4, 5, 5) and call.scale() == pytest.approx(0.5)
    np.testing.assert_array_equal(call.steps["scores"].gradient, seen["attn.scores"].grad.numpy())
    with pytest.raises(KeyError, match="near names"):
        seen.attention("other")
    with probe.watch() as seen:
        ta.scaled_dot_product_attention(x, x, x)
    assert seen.attentions == [""] and "mix" in seen.attention().steps
