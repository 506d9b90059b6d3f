"""no_grad, enable_grad and scope: per thread, per task, restored, nestable, as decorators."""

from __future__ import annotations

import asyncio
import threading

import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import current


def recording() -> bool:
    return (ta.Tensor([1.0], True) * 2).requires_grad


def test_nothing_is_recorded_inside() -> None:
    with ta.no_grad():
        assert not recording()
        with ta.enable_grad():
            assert recording()
        assert not recording()
    assert recording()


def test_a_leaf_made_inside_is_still_a_leaf() -> None:
    with ta.no_grad():
        w = ta.Tensor([1.0], True)
    assert w.requires_grad and (w * 2).requires_grad


def test_restored_after_an_exception() -> None:
    with pytest.raises(KeyError), ta.no_grad(), ta.scope("a"):
        raise KeyError
    assert recording() and current().scope == ""


def test_one_object_nests() -> None:
    off = ta.no_grad()
    with off:
        with off:
            assert not recording()
        assert not recording()
    assert recording()


def test_scopes_join() -> None:
    inner = ta.scope("0")
    with ta.scope("blocks"), inner, inner, ta.no_grad():
        assert current().scope == "blocks.0.0"
    assert current().scope == ""


class TestThreadsAndTasks:
    def test_another_thread_is_not_touched(self) -> None:
        seen = {}
        with ta.no_grad():
            thread = threading.Thread(target=lambda: seen.update(other=recording()))
            thread.start()
            thread.join()
            assert not recording()
        assert seen == {"other": True}

    def test_another_task_is_not_touched(self) -> None:
        async def quiet(order: list[str]) -> bool:
            with ta.no_grad():
                order.append("quiet in")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                order.append("quiet out")
                return recording()

        async def loud(order: list[str]) -> bool:
            await asyncio.sleep(0)
            order.append("loud")
            return recording()

        async def both() -> tuple[list[bool], list[str]]:
            order: list[str] = []
            return await asyncio.gather(quiet(order), loud(order)), order

        found, order = asyncio.run(both())
        assert found == [False, True] and order == ["quiet in", "loud", "quiet out"]


class TestDecorators:
    def test_a_function_and_its_name(self) -> None:
        @ta.no_grad()
        def f(n: int) -> bool:
            """Doc."""
            return recording() if n == 0 else f(n - 1)

        assert f(3) is False and recording() and f.__name__ == "f" and f.__doc__ == "Doc."

    def test_a_coroutine(self) -> None:
        @ta.no_grad()
        async def f() -> bool:
            await asyncio.sleep(0)
            return recording()

        assert asyncio.iscoroutinefunction(f) and asyncio.run(f()) is False

    def test_a_generator_is_inside_at_each_step_and_its_consumer_outside(self) -> None:
        @ta.no_grad()
        def steps():
            yield recording()
            yield recording()

        for inside in steps():
            assert inside is False and recording()

    def test_blocks_of_the_generators_own_span_its_steps(self) -> None:
        @ta.no_grad()
        def steps():
            with ta.enable_grad(), ta.scope("own"):
                yield recording(), current().scope
                yield recording(), current().scope
            yield recording(), current().scope

        found = []
        for item in steps():
            found.append(item)
            assert recording() and current().scope == ""
        assert found == [(True, "own"), (True, "own"), (False, "")]

    def test_send_throw_close_and_the_return_value(self) -> None:
        log = []

        @ta.no_grad()
        def steps():
            try:
                got = yield "first"
                log.append(("sent", got, recording()))
                try:
                    yield "second"
                except KeyError:
                    log.append(("thrown", recording()))
                yield "third"
            finally:
                log.append(("closed", recording()))

        g = steps()
        assert (next(g), g.send(5), g.throw(KeyError())) == ("first", "second", "third")
        g.close()
        assert log == [("sent", 5, False), ("thrown", False), ("closed", False)] and recording()

        @ta.no_grad()
        def returns():
            yield 1
            return 2

        def outer():
            return (yield from returns())

        with pytest.raises(StopIteration) as stop:
            g = outer()
            next(g)
            next(g)
        assert stop.value.value == 2

    def test_an_async_generator_is_refused(self) -> None:
        async def steps():
            yield 1

        with pytest.raises(TypeError, match="no_grad cannot decorate the async generator steps"):
            ta.no_grad()(steps)
