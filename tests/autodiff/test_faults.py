"""Found by attack, mended by kind: an edit, a hook or a thread between forward and backward, extremes, small integers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from optable import ROWS

import tinygrad_attn as ta


def leaf(values: object, dtype: str = "float64") -> ta.Tensor:
    return ta.Tensor(np.array(values, dtype), requires_grad=True)


def stepped(w: ta.Tensor, optimizer: ta.optim.SGD) -> None:
    w.grad = np.full(w.shape, 10.0)
    optimizer.step()
    w.grad = None


class TestEdits:
    @pytest.mark.parametrize("row", [row for row in ROWS if row.op not in ("dropout",)], ids=str)
    def test_a_step_between_forward_and_backward_is_an_error_or_harmless(self, row) -> None:
        """Whichever operation gives a view: what it shares is found out, not declared."""
        arrays = row.make(np.random.default_rng(0))
        gradients = []
        for edits in (False, True):
            given = [ta.Tensor(a, requires_grad=True) if a.dtype.kind == "f" else a for a in arrays]
            leaves = [x for x in given if isinstance(x, ta.Tensor)]
            optimizer = ta.optim.SGD(leaves, lr=1.0)
            out = row(*given)
            out = out if isinstance(out, ta.Tensor) else out[0]
            loss = (out * out).sum()
            try:
                if edits:
                    for x in leaves:
                        stepped(x, optimizer)
                loss.backward()
            except RuntimeError as error:
                assert "data edited between forward and backward" in str(error)
                return
            gradients.append([np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in leaves])
        for before, after in zip(*gradients):
            np.testing.assert_array_equal(before, after)

    def test_a_tensor_inside_an_index_is_copied(self) -> None:
        x = leaf(np.zeros((4, 3)))
        i, j = ta.Tensor(np.array([0, 1])), ta.Tensor(np.array([0, 0]))
        loss = x[i, j].sum()
        i.data = np.array([3, 3])
        loss.backward()
        assert x.grad.numpy()[:, 0].tolist() == [1, 1, 0, 0]

    def test_a_frozen_parameter_is_guarded(self) -> None:
        """Freeze, forward, unfreeze, step, backward: the usual pattern of two players."""
        D, G = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        optimizer = ta.optim.SGD([D], lr=1.0)
        D.requires_grad = False
        loss = (G * D).sum()
        D.requires_grad = True
        stepped(D, optimizer)
        loss.backward()
        assert G.grad.numpy().tolist() == [1, 2] and D.numpy().tolist() == [-9, -8]

    def test_a_step_while_frozen_leaves_its_array_alone(self) -> None:
        D, G = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        optimizer = ta.optim.SGD([D, G], lr=1.0)
        D.requires_grad = False
        loss = (G * D).sum()
        G.grad = [0.0, 0.0]
        optimizer.step()
        D.requires_grad = True
        stepped(D, optimizer)
        loss.backward()  # needs D as it was, and G's own value not at all
        assert G.grad.numpy().tolist() == [1, 2]

    def test_a_parameter_toggled_after_the_forward_is_the_same_leaf(self) -> None:
        x, u = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        optimizer = ta.optim.SGD([x], lr=1.0)
        loss = (x * u).sum()
        x.requires_grad = False
        x.requires_grad = True
        stepped(x, optimizer)
        with pytest.raises(RuntimeError, match="data edited"):
            loss.backward()

    def test_a_view_of_a_leaf_under_no_grad_is_a_copy(self) -> None:
        w, u = leaf([1.0, 2.0, 3.0]), leaf([1.0, 1.0])
        optimizer = ta.optim.SGD([w], lr=1.0)
        with ta.no_grad():
            part = w[:2]
        loss = (part * u).sum()
        stepped(w, optimizer)
        loss.backward()
        assert u.grad.numpy().tolist() == [1, 2]

    def test_two_tensors_never_share_a_gradient(self) -> None:
        a, b = leaf([3.0, 4.0]), leaf([1.0, 1.0])
        g = ta.grad((a**3).sum(), a, create_graph=True)
        a.grad = g
        b.grad = g
        assert a.grad is not b.grad
        ta.optim.clip_grad_norm([a, b], 1.0)
        total = (a.grad.numpy() ** 2).sum() + (b.grad.numpy() ** 2).sum()
        assert total == pytest.approx(1.0)


class TestHooks:
    def test_one_that_removes_itself_leaves_the_next_alone(self) -> None:
        x = leaf([1.0])
        y = x * 1.0
        remove = y.register_hook(lambda g: remove())
        y.register_hook(lambda g: g * 10.0)
        y.sum().backward()
        assert x.grad.item() == 10

    @pytest.mark.parametrize("trunk", [lambda x: x.sum(), lambda x: -x, lambda x: x + 1.0, lambda x: x * x])
    def test_backward_inside_a_hook_through_what_is_still_to_come_is_an_error(self, trunk: Callable) -> None:
        x = leaf([1.0, 2.0, 3.0])
        y = trunk(x)
        first, second = (y * 2.0).sum(), (y * 10.0).sum()
        y.register_hook(lambda g: second.backward() if x.grad is None else None)
        with pytest.raises(RuntimeError, match="backward a second time through"):
            first.backward()


def test_threads_may_share_a_leaf() -> None:
    w = ta.Tensor(np.zeros(100_000), requires_grad=True)

    def work() -> None:
        for _ in range(20):
            (w * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(w.grad.numpy().tolist()) == {80.0}


def test_a_suspended_no_grad_may_be_closed_in_another_thread() -> None:
    def steps():
        with ta.no_grad():
            yield 1

    running, errors = steps(), []
    next(running)

    def close() -> None:
        try:
            running.close()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert errors == []


@pytest.fixture(autouse=True)
def recording_again():
    yield
    from tinygrad_attn.autodiff.mode import MODE, Mode

    MODE.set(Mode())


class TestDtypes:
    @pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "int16"])
    @pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh"])
    def test_small_integers_give_float32(self, name: str, dtype: str) -> None:
        x = np.array([1, 1] if dtype == "bool" else [1, 11], dtype)
        out = getattr(ta, name)(ta.Tensor(x))
        right = getattr(np, name)(x.astype(np.float64))
        assert out.dtype == "float32"
        np.testing.assert_allclose(out.numpy(), right, rtol=1e-6)

    def test_a_plain_number_in_front_does_not_narrow(self) -> None:
        x = np.array([0.1, 1e-9 + 1.0])
        for out in (ta.maximum(0.0, x), ta.where([False, False], 0.0, x), ta.add(1, x), ta.pow(2.0, x), ta.sub(1.0, x)):
            assert out.dtype == "float64"

    def test_more_than_64_bits_are_refused(self) -> None:
        with pytest.raises(TypeError, match="at most 64 bits"):
            ta.ones(2).astype(np.longdouble)

    def test_no_rows_keep_float16(self) -> None:
        assert ta.cross_entropy(ta.zeros((0, 4), dtype="float16"), np.zeros(0, int)).dtype == "float16"

    def test_numpys_copy_false_is_kept_or_refused(self) -> None:
        x = ta.Tensor(np.ones(2))
        assert np.array(x, copy=False).dtype == "float64"
        with pytest.raises(ValueError, match="without a copy"):
            np.array(x, dtype=np.float32, copy=False)


class TestExtremes:
    @pytest.mark.parametrize("unit", [1e-37, 1e-24, 1.0, 1e19, 1e37])
    def test_std_of_tiny_and_huge_entries(self, unit: float) -> None:
        x = leaf(np.array([1.0, 2.0, 4.0, 8.0]) * unit, "float32")
        out = ta.std(x)
        out.backward()
        right = np.array([1.0, 2.0, 4.0, 8.0])
        assert out.item() == pytest.approx(right.std() * unit, rel=1e-5)
        np.testing.assert_allclose(x.grad.numpy(), (right - right.mean()) / (4 * right.std()), rtol=1e-5)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_gelu_far_out(self, dtype: str) -> None:
        x = leaf([3e13, -3e13, 3e38, -3e38, 50.0], dtype)
        out = ta.gelu(x)
        out.sum().backward()
        np.testing.assert_allclose(out.numpy(), np.maximum(x.numpy(), 0))
        assert x.grad.numpy().tolist() == [1, 0, 1, 0, 1]

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("f", [ta.var, ta.std])
    def test_nothing_left_to_vary_has_no_gradient_that_looks_like_one(self, f: Callable) -> None:
        x = leaf([1.0, 2.0, 4.0])
        out = f(x, ddof=3)
        out.backward()
        assert not np.isfinite(out.item()) and not np.isfinite(x.grad.numpy()).all()
