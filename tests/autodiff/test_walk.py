"""The walk: every node once, in order, however deep or tangled; memory freed on the way."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.graph import Node
from tinygrad_attn.autodiff.walk import sum_to


def leaf(*values: float) -> ta.Tensor:
    return ta.Tensor(np.array(values if len(values) != 1 else values[0]), True)


class TestOrder:
    def test_a_node_waits_for_all_its_consumers(self) -> None:
        x = leaf(1.5)
        h = x * x
        (3 * h + h * h + x).backward()
        assert x.grad.item() == 23.5

    def test_every_node_once(self) -> None:
        x = leaf(1.0)
        y = x
        for _ in range(30):  # 2^30 paths
            y = y + y
        seen = Counter(id(step.node) for step in ta.steps(y))
        assert len(seen) == 31 and set(seen.values()) == {1}
        assert x.grad.item() == 2.0**30

    def test_consumers_come_before_parents(self) -> None:
        x = leaf(1.0, 2.0)
        loss = (ta.exp(x) * x + ta.sin(x) / x).sum()
        seen: set[Node] = set()
        for step in ta.steps(loss, retain_graph=True):
            assert not any(parent in seen for parent in step.node.parents)
            seen.add(step.node)

    def test_the_same_tensor_twice(self) -> None:
        for f, right in [
            (lambda x: x * x, 6.0),
            (lambda x: x + x, 2.0),
            (lambda x: x - x, 0.0),
            (lambda x: x / x, 0.0),
        ]:
            x = leaf(3.0)
            f(x).backward()
            assert x.grad.item() == right

    def test_outputs_that_depend_on_each_other(self) -> None:
        x = leaf(2.0)
        y = x * x
        z = 3 * y
        assert ta.grad([z, y], x).item() == 16.0
        y = x * x
        assert ta.grad([y, y], x).item() == 8.0


class TestDepth:
    N = 20_000

    def test_a_long_chain(self) -> None:
        x = leaf(2.0)
        y = x
        for _ in range(self.N):
            y = y * 1.00001
        assert y.item() == pytest.approx(2.44280307, rel=1e-8)
        y.backward()
        assert x.grad.item() == pytest.approx(1.22140154, rel=1e-8)

    def test_a_long_chain_recorded_again(self) -> None:
        x = leaf(1.0)
        y = x
        for _ in range(2_000):
            y = ta.sin(y)
        first = ta.grad(y, x, create_graph=True)
        assert np.isfinite(ta.grad(first, x).item())

    def test_freeing_without_backward(self) -> None:
        y = leaf(1.0, 2.0)
        for _ in range(self.N):
            y = y * 1.0
        repr(y)
        del y

    def test_y_plus_y_times_c_takes_linear_time(self) -> None:
        def seconds(n: int) -> float:
            best = np.inf
            for _ in range(3):
                start = time.perf_counter()
                y = leaf(1.0)
                for _ in range(n):
                    y = y + y * 1e-4
                y.backward()
                best = min(best, time.perf_counter() - start)
            return best

        seconds(100)
        assert seconds(4_000) < 20 * seconds(500)  # 8 times the work


class TestMemory:
    def test_no_cycles(self) -> None:
        """With the collector off, what 200 rounds made is gone when their tensors are."""

        def live() -> Counter[str]:
            return Counter(type(o).__name__ for o in gc.get_objects() if type(o) in (Node, ta.Tensor))

        def one_round(create_graph: bool = False) -> None:
            x = leaf(0.1, 0.7)
            y = ta.exp(x) + ta.tanh(x) + ta.sigmoid(x) + ta.sqrt(x) + ta.softmax(x) + ta.layer_norm(x) + ta.gelu(x)
            y = y.named("y").retain_grad()
            y.register_hook(lambda g: g * 2)
            loss = (y * ta.max(y)).sum() + ta.cross_entropy(y, 1)
            loss.backward(create_graph=create_graph)

        one_round()
        gc.collect()
        gc.disable()
        try:
            before = live()
            for i in range(200):
                one_round()
                leaf(1.0) * 2  # never went backward
                if i % 20 == 0:
                    ta.grad(ta.grad(leaf_used := ta.exp(x := leaf(1.0)), x, create_graph=True), x)
                    del leaf_used, x
            assert live() == before
        finally:
            gc.enable()

    def test_saved_arrays_are_freed_while_backward_passes(self) -> None:
        """20 saved arrays of 1 MB: backward's own arrays take the place of those released."""
        x = ta.Tensor(np.full(131_072, 0.5), True)
        y = x
        for _ in range(20):
            y = ta.exp(-y)
        loss = y.sum()
        del y
        tracemalloc.start()
        loss.backward()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        assert peak < 6  # new arrays alone would be 40

    def test_memory_falls_during_the_walk(self) -> None:
        tracemalloc.start()
        x = ta.Tensor(np.full(131_072, 0.5), True)
        y = x
        for _ in range(20):
            y = ta.exp(-y)
        loss = y.sum()
        del y
        start = tracemalloc.get_traced_memory()[0]
        sizes = []
        for step in ta.steps(loss):
            del step
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert sizes[len(sizes) // 2] < 0.7 * start and sizes[-1] < 0.25 * start

    def test_an_op_keeps_what_its_rules_name_and_nothing_else(self) -> None:
        x, y, c = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0).detach()

        def kept(out: ta.Tensor) -> list[np.ndarray]:
            parts = [
                part
                for values in out._node.residuals
                if values
                for part in (values.values() if isinstance(values, dict) else values)
            ]
            return [part for part in parts if isinstance(part, np.ndarray)]

        assert (
            kept(x + y) == [] and kept(x - y) == [] and kept(-x) == [] and kept(x.sum()) == [] and kept(x * 2.0) == []
        )
        assert [id(a) for a in kept(x * y)] == [id(y._data), id(x._data)]
        assert [id(a) for a in kept(x * c)] == [id(c._data)]  # c wants no gradient, so x is not kept for it
        out = ta.exp(x)
        assert [id(a) for a in kept(out)] == [id(out._data)]


class TestRelease:
    def test_a_second_backward_names_the_operation_and_the_line(self) -> None:
        x = leaf(1.0, 2.0)
        loss = (x * x).sum()
        loss.backward()
        with pytest.raises(
            RuntimeError, match=r"(?s)second time through sum \(test_walk.py:\d+: loss = .*retain_graph=True"
        ):
            loss.backward()

    def test_retain_graph(self) -> None:
        x = leaf(2.0)
        y = x * x * x
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.item() == 24

    def test_a_shared_part_is_released_too(self) -> None:
        x = leaf(2.0)
        shared = x * x
        (shared * 3).backward()
        with pytest.raises(RuntimeError, match="second time through mul"):
            (shared * 5).backward()
        assert x.grad.item() == 12  # the failed one changed nothing


def test_an_error_in_a_rule_names_the_forward_line() -> None:
    @ta.op(vjps={"x": lambda g: g / {}})
    def broken(x):
        return x + 1

    y = broken(leaf(1.0, 2.0))
    with pytest.raises(TypeError) as caught:
        y.sum().backward()
    assert any("in the backward rule of broken (test_walk.py" in note for note in caught.value.__notes__)


def test_a_rule_of_the_wrong_shape_is_named() -> None:
    @ta.op(vjps={"x": lambda g: g.sum(axis=0)})
    def wrong(x):
        return x * 1

    with pytest.raises(
        ValueError, match=r"wrong: a rule gave a gradient of shape \(\) for an argument of shape \(2,\)"
    ):
        wrong(leaf(1.0, 2.0)).sum().backward()


@pytest.mark.parametrize("shape", [(), (3,), (1,), (2, 1), (1, 3), (2, 3)])
def test_sum_to_is_the_transpose_of_broadcasting(shape: tuple[int, ...]) -> None:
    g, x = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=shape)
    assert sum_to(g, shape).shape == shape
    assert (sum_to(g, shape) * x).sum() == pytest.approx((g * np.broadcast_to(x, (2, 3))).sum())
