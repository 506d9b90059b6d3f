"""A context manager that changes a context variable, as a decorator of a function, a generator or a coroutine."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def decorated(function: F, switch: Any, variable: ContextVar[Any]) -> F:
    """The whole call runs inside `switch`; of a generator function, each of its steps.
    switch: a context manager that sets `variable` to ``switch.inner(its value)``."""
    if inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{type(switch).__name__} cannot decorate the async generator {function.__name__}; use it inside"
        )
    if inspect.isgeneratorfunction(function):
        return _generator(function, switch, variable)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with switch:
                return await function(*args, **kwargs)

        return coroutine  # type: ignore[return-value]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with switch:
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _generator(function: Any, switch: Any, variable: ContextVar[Any]) -> Any:
    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        inside = function(*args, **kwargs)
        advance, value, own = inside.send, None, None
        while True:
            outer = variable.get()  # the consumer's, put back after each step
            variable.set(own or switch.inner(outer))
            try:
                item = advance(value)
            except StopIteration as stop:
                return stop.value
            finally:
                own = variable.get()  # the step may have ended inside a block of its own
                variable.set(outer)
            try:
                value, advance = (yield item), inside.send
            except BaseException as error:  # thrown in, or GeneratorExit when it is closed
                value, advance = error, inside.throw

    return generator
