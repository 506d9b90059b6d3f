"""The meters against 50 digits and closed forms; the recorder against a head that is made to die."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import mpmath
import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe
from tinygrad_attn.probe.meters import rows


def exact(s):
    mpmath.mp.dps = 50
    e = [mpmath.exp(mpmath.mpf(float(v))) for v in s]
    p = [x / sum(e) for x in e]
    entropy = -sum(x * mpmath.log(x) for x in p) / mpmath.log(len(p))
    n = range(len(p))
    square = sum(((p[a] if a == b else 0) - p[a] * p[b]) ** 2 for a in n for b in n)
    return float(entropy), float(mpmath.sqrt(square))


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("n", [2, 3, 16, 64])
def test_against_fifty_digits_also_where_saturated(size, n):
    s = (np.random.default_rng(n).standard_normal((6, n)) * size).astype(np.float32)
    found = rows(ta.softmax(s).numpy())
    for i in range(6):
        entropy, jacobian = exact(s[i])
        assert found.entropy[i] == pytest.approx(entropy, rel=2e-5)
        assert found.jacobian[i] == pytest.approx(jacobian, rel=2e-5)


def test_the_textbook_forms_would_not_do():
    s = np.array([20.0, 0.0], np.float32)
    p = ta.softmax(s).numpy()
    textbook = np.sqrt(max((p**2).sum() - 2 * (p**3).sum() + (p**2).sum() ** 2, 0))
    assert rows(p).jacobian == pytest.approx(exact(s)[1], rel=1e-6)
    assert abs(textbook / exact(s)[1] - 1) > 0.5


def test_closed_forms():
    n = 8
    uniform = rows(np.full((1, n), 1 / n))
    assert uniform.entropy[0] == pytest.approx(1.0) and uniform.jacobian[0] == pytest.approx(np.sqrt(n - 1) / n)
    one_hot = rows(np.eye(n))
    assert (one_hot.entropy == 0).all() and (one_hot.jacobian == 0).all() and (one_hot.largest == 1).all()


def test_entropy_is_over_the_keys_that_may_be_seen():
    keep = np.tri(4, dtype=bool)
    p = keep / keep.sum(-1, keepdims=True)
    found = rows(p, keep)
    assert np.isnan(found.entropy[0])  # one key: no choice
    np.testing.assert_allclose(found.entropy[1:], 1.0)
    one = probe.meters(p, keep)[0]
    assert one.rows == 3 and one.dead == 0 and one.entropy == pytest.approx(1.0)


def test_a_row_that_sees_nothing_is_not_counted():
    one = probe.meters(np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([[False, False], [True, True]]))[0]
    assert one.rows == 1 and one.dead == 0
    nothing = probe.meters(np.zeros((2, 2)), np.zeros((2, 2), bool))[0]
    assert nothing.rows == 0 and np.isnan(nothing.entropy)


def attention(x, size):
    """Two heads: head 1's scores are multiplied by `size`."""
    factor = np.array([1.0, size], np.float32)[:, None, None]
    return ta.scaled_dot_product_attention(x * factor, x, x)[0]


def test_recorder_rows_history_and_alarm(tmp_path):
    x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 2, 6, 4)), dtype="float32")
    heard = []
    recorder = probe.Recorder(path=tmp_path / "meters.jsonl", every=2, on_alarm=heard.append)
    for step in range(7):
        with recorder.at(step), ta.scope("attn"):
            attention(x, 1.0 if step < 4 else 1e4)
    assert sorted({row["step"] for row in recorder.rows}) == [0, 2, 4, 6]
    assert [(a.step, a.name, a.head) for a in recorder.alarms] == [(4, "attn.weights", 1)] and heard == recorder.alarms
    assert "step 4" in str(heard[0]) and "head 1" in str(heard[0])
    assert recorder.table().rows[0]["head"] == 1 and len(recorder.latest) == 2
    again = probe.read_history(tmp_path / "meters.jsonl")
    assert again == json.loads(json.dumps(recorder.rows))
    with (tmp_path / "meters.jsonl").open("a") as file:
        file.write('{"step": 8, "na')
    assert len(probe.read_history(tmp_path / "meters.jsonl")) == len(again)


def test_the_default_alarm_is_a_warning_and_a_head_may_rise_again():
    x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 2, 6, 4)), dtype="float32")
    recorder = probe.Recorder(every=1)
    with pytest.warns(UserWarning, match="has died"), recorder.at(0):
        attention(x, 1e4)
    with recorder.at(1):
        attention(x, 1.0)
    with pytest.warns(UserWarning, match="step 2"), recorder.at(2):
        attention(x, 1e4)
    assert [alarm.step for alarm in recorder.alarms] == [0, 2]


def test_recorder_reads_fused_attention_and_masks():
    model = ta.nn.Block(16, 4, seed=0, causal=True)
    recorder = probe.Recorder(model, every=1)
    with recorder.at(0):
        model(ta.randn(2, 5, 16))
    assert [row["head"] for row in recorder.rows] == [0, 1, 2, 3]
    assert all(row["entropy"] > 0.99 and row["rows"] == 8 for row in recorder.rows)  # small weights: even attention


def test_recorder_says_when_nothing_ran():
    recorder = probe.Recorder(every=1)
    with pytest.raises(RuntimeError, match="no attention ran"), recorder.at(0):
        ta.ones(2)
    with pytest.raises(RuntimeError, match="no meters were recorded"):
        probe.meters_table([])
    with pytest.raises(ValueError, match="every"):
        probe.Recorder(every=0)


def test_micro_batches_are_averaged():
    x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 2, 6, 4)), dtype="float32")
    whole, parts = probe.Recorder(every=1), probe.Recorder(every=1)
    with whole.at(0):
        attention(x, 3.0)
    with parts.at(0):
        attention(x[:1], 3.0)
        attention(x[1:], 3.0)
    for a, b in zip(whole.rows, parts.rows):
        assert a["entropy"] == pytest.approx(b["entropy"], rel=1e-5) and a["rows"] == b["rows"]


def test_workers_do_not_mix_their_masks():
    """Threads that share a step (data-parallel training copies the context to them), each with a mask of its own."""
    x = ta.Tensor(np.zeros((4, 2, 24, 4)), dtype="float32")
    recorder = probe.Recorder(every=1)

    def work(number):
        for _ in range(20):
            ta.scaled_dot_product_attention(x, x, x, mask=np.tri(24, k=-number, dtype=bool))

    with recorder.at(0), ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(copy_context().run, work, number) for number in (0, 8)]:
            done.result()
    for row in recorder.rows:  # equal scores: even over the keys that are visible, in each of the calls
        assert row["entropy"] == pytest.approx(1.0, abs=1e-5)
        assert row["rows"] == 20 * 4 * (23 + 15)


def test_a_resumed_run_writes_no_step_twice(tmp_path):
    x = ta.Tensor(np.zeros((1, 2, 3, 4)), dtype="float32")
    for first in (0, 2):  # stopped after step 3, resumed at step 2
        recorder = probe.Recorder(path=tmp_path / "meters.jsonl", every=1)
        for step in range(first, 4):
            with recorder.at(step):
                attention(x, 1.0)
    steps = [row["step"] for row in probe.read_history(tmp_path / "meters.jsonl")]
    assert steps == [0, 0, 1, 1, 2, 2, 3, 3]
