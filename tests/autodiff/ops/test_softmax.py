"""softmax and its kin where the numbers are hard: infinities, saturation, nothing to attend to."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF = np.inf


def gradient(f, x, g, dtype=np.float64):
    leaf = ta.Tensor(np.array(x, dtype), True)
    f(leaf).backward(np.array(g, dtype))
    return leaf.grad.numpy()


def test_the_winners_gradient_does_not_round_away() -> None:
    """float32, logits (20, 0), g = (1, 0): the textbook formula gives 0 for the winner."""
    p = np.exp(-20.0) / (1 + np.exp(-20.0))
    ours = gradient(ta.softmax, [20.0, 0.0], [1.0, 0.0], np.float32)
    np.testing.assert_allclose(ours, [p * (1 - p), -p * (1 - p)], rtol=1e-6)
    np.testing.assert_allclose(gradient(ta.softmax, [0.0, 20.0], [1.0, 0.0], np.float32), ours, rtol=1e-6)


def test_saturated_log_softmax_and_cross_entropy_are_exact() -> None:
    p = np.exp(-50.0)
    ours = gradient(ta.log_softmax, [50.0, 0.0], [1.0, 0.0], np.float32)
    np.testing.assert_allclose(ours, [p, -p], rtol=1e-6)
    ours = gradient(lambda z: ta.cross_entropy(z, [0]), [[50.0, 0.0]], 1.0, np.float32)
    np.testing.assert_allclose(ours, [[-p, p]], rtol=1e-6)
    assert ta.cross_entropy([[50.0, 0.0]], [0]).item() == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("create_graph", [False, True])
def test_nothing_to_attend_to(create_graph: bool) -> None:
    """-inf everywhere: softmax 0, log_softmax and logsumexp -inf; every gradient 0."""
    x = np.array([[-INF, -INF], [0.0, -INF]])
    for f, value, right in [
        (ta.softmax, [[0, 0], [1, 0]], [[0, 0], [0, 0]]),
        (ta.log_softmax, [[-INF, -INF], [0, -INF]], [[0, 0], [-7, 0]]),
        (lambda x: ta.logsumexp(x, axis=-1, keepdims=True), [[-INF], [0]], [[0, 0], [11, 0]]),
    ]:
        leaf = ta.Tensor(x, True)
        out = f(leaf)
        np.testing.assert_array_equal(out.numpy(), value)
        out.backward(np.array([[5.0, 7.0], [11.0, 7.0]])[:, : out.shape[1]], create_graph=create_graph)
        if f is ta.log_softmax:  # d/dx = g - p sum g, and what is -inf has p = 0
            assert leaf.grad.numpy()[0].tolist() == [0, 0] and np.isfinite(leaf.grad.numpy()).all()
        else:
            np.testing.assert_array_equal(leaf.grad.numpy(), right)


def test_no_entries_along_the_axis() -> None:
    assert ta.softmax(ta.Tensor(np.zeros((2, 0)))).shape == (2, 0)
    assert ta.logsumexp(ta.Tensor(np.zeros((2, 0))), axis=1).numpy().tolist() == [-INF, -INF]
    assert gradient(lambda x: ta.logsumexp(x, axis=1), np.zeros((2, 0)), [1.0, 1.0]).shape == (2, 0)


@pytest.mark.parametrize("f", [ta.softmax, ta.log_softmax, lambda x: ta.logsumexp(x, axis=-1, keepdims=True)])
def test_nan_stays_in_its_row_and_is_not_hidden(f) -> None:
    out = f([[np.nan, 1.0], [0.0, 1.0]]).numpy()
    assert np.isnan(out[0]).all() and np.isfinite(out[1]).all()


def test_large_logits() -> None:
    assert ta.softmax([1e4, 0.0]).numpy().tolist() == [1, 0]
    assert ta.logsumexp([1e4, 1e4]).item() == pytest.approx(1e4 + np.log(2))
    assert ta.logsumexp([INF, 0.0]).item() == INF


def test_float16_computes_in_float32() -> None:
    many = ta.Tensor(np.zeros(70_000, np.float16))
    assert ta.logsumexp(many).item() == pytest.approx(np.log(70_000), rel=1e-3)
    assert ta.softmax(many).numpy()[0] == pytest.approx(1 / 70_000, rel=1e-2)
    logits = ta.Tensor(np.zeros((70_000, 2), np.float16), True)
    loss = ta.cross_entropy(logits, np.zeros(70_000, int))
    assert loss.dtype == np.float16 and loss.item() == pytest.approx(np.log(2), rel=1e-3)


@pytest.mark.parametrize("f", [ta.softmax, ta.log_softmax, ta.cumsum])
def test_a_0d_tensor_has_no_axis(f) -> None:
    with pytest.raises(np.exceptions.AxisError, match="axis -1 is out of bounds for array of dimension 0"):
        f(ta.Tensor(1.0))


class TestCrossEntropy:
    def test_ignored_targets_do_not_count(self) -> None:
        z = np.array([[1.0, 2.0], [5.0, 1.0], [0.0, 3.0]])
        some, rest = ta.cross_entropy(z, [0, -100, 1]), ta.cross_entropy(z[[0, 2]], [0, 1])
        assert some.item() == pytest.approx(rest.item(), rel=1e-12)
        assert gradient(lambda x: ta.cross_entropy(x, [0, -100, 1]), z, 1.0)[1].tolist() == [0, 0]

    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_all_ignored_gives_0_and_gradient_0(self, smoothing) -> None:
        z = ta.Tensor([[1.0, 2.0]], True)
        loss = ta.cross_entropy(z, [-100], label_smoothing=smoothing)
        loss.backward()
        assert loss.item() == 0 and z.grad.numpy().tolist() == [[0, 0]]

    def test_an_ignored_row_may_hold_anything(self) -> None:
        z = [[np.nan, INF], [0.0, 0.0]]
        assert ta.cross_entropy(z, [-100, 1]).item() == pytest.approx(np.log(2))
        assert gradient(lambda x: ta.cross_entropy(x, [-100, 1]), z, 1.0).tolist() == [[0, 0], [0.5, -0.5]]

    def test_the_gradient_of_every_row_sums_to_0(self) -> None:
        z = np.random.default_rng(0).normal(0, 20, (50, 7)).astype(np.float32)
        g = gradient(lambda x: ta.cross_entropy(x, np.arange(50) % 7), z, 1.0, np.float32)
        assert (np.abs(g.sum(axis=-1)) <= 1.2e-7 * np.abs(g).max(axis=-1)).all()
