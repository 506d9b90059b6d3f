"""backward, grad and steps; hooks, kept gradients, gradients of gradients; data edited in between."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tinygrad_attn as ta


def leaf(*values: float, dtype=np.float64) -> ta.Tensor:
    return ta.Tensor(np.array(values if len(values) != 1 else values[0]), True, dtype=dtype)


class TestGrad:
    def test_it_adds_up_over_backward_passes(self) -> None:
        x = leaf(1.0, 2.0)
        for total in (1, 2, 3):
            (x * 5).sum().backward()
            assert x.grad.numpy().tolist() == [5 * total] * 2
        x.grad = None
        assert x.grad is None

    @pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
    def test_it_is_a_tensor_around_an_array(self, shape: tuple[int, ...]) -> None:
        x = ta.Tensor(np.ones(shape), True)
        for _ in range(3):
            (x * x + x).sum().backward()
            assert type(x.grad) is ta.Tensor and type(x.grad._data) is np.ndarray
            assert x.grad.shape == shape and "Tensor" in repr(x.grad)

    def test_leaves_of_one_sum_have_gradients_of_their_own(self) -> None:
        for create_graph in (False, True):
            a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
            seed = ta.Tensor([5.0, 6.0], dtype=np.float64)
            (a + b).backward(seed, create_graph=create_graph)
            with ta.no_grad():
                a.grad *= 0.0
            assert b.grad.numpy().tolist() == [5, 6] and seed.numpy().tolist() == [5, 6]

    def test_a_leaf_that_is_its_own_loss(self) -> None:
        x = leaf(1.0, 2.0)
        seed = np.array([3.0, 4.0])
        x.backward(seed)
        seed[:] = 0
        assert x.grad.numpy().tolist() == [3, 4]

    def test_an_intermediate_has_none_unless_it_is_kept(self) -> None:
        x = leaf(2.0)
        h, k = x * x, x * 3
        k.retain_grad()
        (h * k).backward()
        assert h.grad is None and k.grad.item() == 4 and x.grad.item() == 36

    def test_setting_it_copies_and_takes_the_dtype(self) -> None:
        x = leaf(1.0, 2.0, dtype=np.float32)
        given = ta.Tensor([1.0, 2.0], dtype=np.float64)
        x.grad = given
        assert x.grad.dtype == np.float32 and not np.shares_memory(x.grad._data, given._data)
        x.grad = [3.0, 4.0]
        (x * 1).sum().backward()
        assert x.grad.numpy().tolist() == [4, 5]
        with pytest.raises(ValueError, match=r"x.grad = ...: expected shape \(2,\), got \(3,\)"):
            x.grad = [1.0, 2.0, 3.0]
        with pytest.raises(RuntimeError, match="does not require a gradient"):
            ta.Tensor([1.0]).grad = [1.0]

    def test_detach_stops_the_gradient(self) -> None:
        x = leaf(3.0)
        (x.detach() * x).backward()
        assert x.grad.item() == 3


class TestSeed:
    @pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
    def test_one_entry_needs_none(self, shape: tuple[int, ...]) -> None:
        x = ta.Tensor(np.full(shape, 3.0), True)
        (x * x).backward()
        assert x.grad.item() == 6 and x.grad.shape == shape

    @pytest.mark.parametrize("seed", [[1.0, 10.0], np.array([1, 10]), np.float32([1, 10]), ta.Tensor([1.0, 10.0])])
    def test_arrays_lists_and_tensors(self, seed) -> None:
        for create_graph in (False, True):
            x = leaf(3.0, 4.0)
            (x * x).backward(seed, create_graph=create_graph)
            assert x.grad.numpy().tolist() == [6, 80] and x.grad.dtype == np.float64


class TestHooks:
    def test_a_hook_sees_the_whole_gradient_and_may_replace_it(self) -> None:
        x = leaf(1.0, 2.0)
        h = x * 3
        seen = []
        h.register_hook(lambda g: seen.append(g.numpy().tolist()))
        h.register_hook(lambda g: g * 10)
        (h + h * h).sum().backward()
        assert seen == [[7, 13]] and x.grad.numpy().tolist() == [210, 390]

    def test_a_hook_can_be_removed(self) -> None:
        x = leaf(2.0)
        remove = x.register_hook(lambda g: g * 0)
        remove()
        remove()
        (x * 3).backward()
        assert x.grad.item() == 3

    def test_a_hook_keeps_shape_and_dtype(self) -> None:
        x = leaf(1.0, 2.0, dtype=np.float32)
        x.register_hook(lambda g: ta.Tensor([1.0, 1.0], dtype=np.float64))
        (x * 3).sum().backward()
        assert x.grad.dtype == np.float32
        x.register_hook(lambda g: g.sum())
        with pytest.raises(ValueError, match=r"hook: expected a gradient of shape \(2,\), got \(\)"):
            (x * 3).sum().backward()

    def test_it_keeps_the_dtype_with_create_graph_too(self) -> None:
        x = leaf(1.0, 2.0, dtype=np.float32)
        x.register_hook(lambda g: g.astype("float64"))
        assert ta.grad((x * x).sum(), x, create_graph=True).dtype == np.float32

    def test_with_create_graph_it_is_recorded_also_inside_no_grad(self) -> None:
        x = leaf(2.0)
        x.register_hook(lambda g: g * g)
        y = x * x
        with ta.no_grad():
            first = ta.grad(y, x, create_graph=True)
        assert first.item() == 16 and first.requires_grad

    def test_a_hook_is_recorded_with_create_graph(self) -> None:
        x = leaf(2.0)
        y = x * x
        remove = y.register_hook(lambda g: g * y)
        first = ta.grad(y, x, create_graph=True)  # y * 2x = 2 x^3
        remove()
        assert ta.grad(first, x).item() == 24


class TestFunctionGrad:
    def test_one_input_or_several_leaves_or_intermediates(self) -> None:
        x, y = leaf(2.0), leaf(5.0)
        h = x * y
        z = h * h
        gx, gh = ta.grad(z, [x, h], retain_graph=True)
        assert (gx.item(), gh.item(), ta.grad(z, y).item()) == (100, 20, 40)
        assert x.grad is None and y.grad is None

    def test_one_gradient_for_each_output(self) -> None:
        x = leaf(2.0)
        assert ta.grad([x * 3, x * 5], x, [ta.Tensor(10.0), 100.0]).item() == 530
        with pytest.raises(ValueError, match="one gradient for each of 2 outputs, got 1"):
            ta.grad([x * 3, x * 5], x, [1.0])

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_inputs_get_gradients_of_their_own(self, create_graph: bool) -> None:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        first, second = ta.grad((a + b).sum(), [a, b], create_graph=create_graph)
        assert first is not second and not np.shares_memory(first._data, second._data)


class TestGradientsOfGradients:
    def test_to_the_fifth(self) -> None:
        x = leaf(2.0)
        y, found = x**5, []
        for _ in range(5):
            y = ta.grad(y, x, create_graph=True)
            found.append(y.item())
        assert found == [80, 160, 240, 240, 120]

    def test_backward_can_record_too(self) -> None:
        x = leaf(3.0)
        (x * x * x).backward(create_graph=True)
        first = x.grad
        x.grad = None
        first.backward()
        assert x.grad.item() == 18

    def test_a_recorded_gradient_is_not_changed_by_a_later_pass(self) -> None:
        x = leaf(2.0)
        (x * x * x).backward(create_graph=True)
        first = x.grad
        (x * x).backward()
        assert first.item() == 12 and x.grad.item() == 16
        assert ta.grad(first, x).item() == 12

    def test_it_records_also_under_no_grad(self) -> None:
        x = leaf(2.0)
        y = x * x * x + x * x
        with ta.no_grad():
            first = ta.grad(y, x, create_graph=True)
        assert ta.grad(first, x).item() == 14

    def test_the_gradient_of_a_gradient_penalty(self) -> None:
        x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        g = ta.grad((w * x * x).sum(), x, create_graph=True)  # 2 w x
        (g * g).sum().backward()
        assert w.grad.numpy().tolist() == [24, 128]  # 8 w x^2


class TestEdits:
    """A value that a rule kept was replaced between forward and backward: an error, or no matter."""

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: x * x,
            lambda x: x / x,
            lambda x: 1 / x,
            ta.log,
            lambda x: x**2,
            ta.gelu,
            ta.layer_norm,
            lambda x: x[None] @ x,
            lambda x: ta.einsum("i,i->i", x, x),
            lambda x: x[:1],
        ],
    )
    @pytest.mark.parametrize("edit", ["data", "in place"])
    def test_an_edit_of_what_was_kept_is_named(self, f, edit: str) -> None:
        w = leaf(1.0, 2.0).named("w")
        loss = f(w).sum()
        if edit == "data":
            w.data = [5.0, 6.0]
        else:
            with ta.no_grad():
                w -= 0.5
        with pytest.raises(
            RuntimeError, match=r"data edited .*w of shape \(2,\) was changed after .*test_backward.py:\d+"
        ):
            loss.backward()
        assert w.grad is None

    def test_an_edit_of_an_output_that_was_kept(self) -> None:
        y = ta.exp(leaf(1.0, 2.0))
        loss = y.sum()
        y.data = [0.0, 0.0]
        with pytest.raises(RuntimeError, match=r"its own output of shape .2,. was changed after exp"):
            loss.backward()

    def test_a_tensor_without_a_name_is_told_by_its_line(self) -> None:
        layer = ta.nn.Linear(2, 2, seed=0)
        h = layer(leaf(1.0, 2.0)) * 3
        loss = (h * h).sum()
        h.data = [0.0, 0.0]
        with pytest.raises(
            RuntimeError, match=r"the output of mul \(test_backward.py:\d+: h = .*\) of shape \(2,\) was"
        ):
            loss.backward()
        loss = layer(leaf(1.0, 2.0)).sum()
        layer.W.data = layer.W.numpy() * 2
        with pytest.raises(
            RuntimeError, match=r"the leaf made in test_backward.py:\d+: layer = .*, of shape \(2, 2\) was"
        ):
            loss.backward()

    @pytest.mark.parametrize(
        "f", [lambda x: x + 1, lambda x: x * 3, lambda x: -x, lambda x: ta.concatenate([x, x]), ta.sum]
    )
    def test_an_edit_of_what_nobody_kept_is_fine(self, f) -> None:
        x = leaf(1.0, 2.0)
        loss = f(x).sum()
        x.data = [5.0, 6.0]
        loss.backward()
        assert np.isfinite(x.grad.numpy()).all()

    def test_after_an_edit_a_new_forward_is_fine(self) -> None:
        w = leaf(1.0, 2.0)
        for _ in range(3):
            (w * w).sum().backward()
            with ta.no_grad():
                w -= 0.5 * w.grad
            w.grad = None
        assert w.numpy().tolist() == [0, 0]

    def test_the_data_are_read_only(self) -> None:
        x = leaf(1.0, 2.0)
        with pytest.raises(ValueError, match="read-only"):
            x.data[0] = 5.0


class TestSteps:
    def test_gradients_flow_as_in_backward(self) -> None:
        x = leaf(1.0, 2.0)
        loss = (x * x).sum()
        found = [(step.node.op.name, step.gradient.tolist()) for step in ta.steps(loss)]
        assert found == [("sum", 1.0), ("mul", [1, 1]), ("leaf", [2, 4])]
        assert x.grad.numpy().tolist() == [2, 4]

    def test_each_step_can_be_kept(self) -> None:
        x = leaf(1.0, 2.0)
        steps = list(ta.steps((ta.exp(x) * x).sum()))
        assert len({id(step) for step in steps}) == len(steps) == 4
        assert [len(step.contributions) for step in steps] == [1, 2, 1, 0]

    def test_a_walk_may_be_left(self) -> None:
        x = leaf(1.0, 2.0)
        next(ta.steps((x * x).sum()))
        assert x.grad is None


def test_a_step_and_its_node_print_what_they_are() -> None:
    w = ta.ones(2, requires_grad=True)
    found = list(ta.steps((w * w).sum()))
    assert str(found[1]) == "Step(mul, gradient (2,), 2 contributions)"
    assert re.fullmatch(r"Node\(mul, shape \(2,\), test_backward.py:\d+: found = list\(.*\)\)", repr(found[1].node))
    assert repr(found[2].node).startswith("Node(leaf, shape (2,), test_backward.py:")
