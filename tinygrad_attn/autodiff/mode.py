"""What is in force right now: is the graph recorded, under which path of names, and who watches.

One immutable `Mode` per thread and per async task (a context variable), so that ``no_grad`` in one
thread or coroutine never leaks into another.  Every context manager here puts a new Mode in place
whose `outer` is the one before, and puts that one back on exit, also after an exception.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Mode:
    """recording: do operations on tensors build the graph?  scope: path of names ("blocks.0.attn").
    watcher: called with (path, tensor) for each named tensor, or None.
    draws: gives the keys of dropout patterns in place of the seeded generator, or None."""

    __slots__ = ("recording", "scope", "watcher", "draws", "outer")

    def __init__(self, recording: bool, scope: str, watcher: Any, draws: Any, outer: Mode | None) -> None:
        self.recording, self.scope, self.watcher, self.draws, self.outer = recording, scope, watcher, draws, outer


MODE: ContextVar[Mode] = ContextVar("mode", default=Mode(True, "", None, None, None))  # noqa: B039 (never changed)
current = MODE.get


class _Switch:
    """A context manager that changes the Mode; one object may be entered again while it is in force."""

    def _inner(self, now: Mode) -> Mode:
        raise NotImplementedError

    def __enter__(self) -> Any:
        MODE.set(self._inner(current()))
        return self

    def __exit__(self, *_: object) -> None:
        outer = current().outer
        assert outer is not None
        MODE.set(outer)

    def __call__(self, function: F) -> F:
        """As a decorator: the whole call runs inside; of a generator function, each of its steps."""
        if inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{type(self).__name__} cannot decorate the async generator {function.__name__}; use it inside"
            )
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                inside = function(*args, **kwargs)
                advance, value, own = inside.send, None, None
                while True:
                    outer = current()  # the consumer's, put back after each step
                    MODE.set(own or self._inner(outer))
                    try:
                        item = advance(value)
                    except StopIteration as stop:
                        return stop.value
                    finally:
                        own = current()  # the step may have ended inside a block of its own
                        MODE.set(outer)
                    try:
                        value, advance = (yield item), inside.send
                    except BaseException as error:  # thrown in, or GeneratorExit when it is closed
                        value, advance = error, inside.throw

            return generator  # type: ignore[return-value]
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]


class no_grad(_Switch):
    """Nothing inside is recorded: results have no gradient.  A context manager and a decorator.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> with ta.no_grad():
    ...     print((2 * w).requires_grad)
    False
    """

    def _inner(self, now: Mode) -> Mode:
        return Mode(False, now.scope, now.watcher, now.draws, now)


class enable_grad(_Switch):
    """Record again inside a ``no_grad`` block.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> with ta.no_grad(), ta.enable_grad():
    ...     print((2 * w).requires_grad)
    True
    """

    def _inner(self, now: Mode) -> Mode:
        return Mode(True, now.scope, now.watcher, now.draws, now)


class scope(_Switch):
    """Names given inside get `name` and a dot in front: ``"scores"`` becomes ``"attn.scores"``.

    >>> import tinygrad_attn as ta
    >>> with ta.scope("attn"):
    ...     print(ta.ones(2).named("scores").name)
    attn.scores
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def _inner(self, now: Mode) -> Mode:
        return Mode(now.recording, f"{now.scope}.{self.name}" if now.scope else self.name, now.watcher, now.draws, now)


class watching(_Switch):
    """`watcher(path, tensor)` is called for every tensor that is named inside.  One with an attribute
    ``values_only = True`` waits for no gradient: inside fused operations it is shown constants, which cost less."""

    def __init__(self, watcher: Callable[[str, Any], None]) -> None:
        self.watcher = watcher

    def _inner(self, now: Mode) -> Mode:
        return Mode(now.recording, now.scope, self.watcher, now.draws, now)


def seen(name: str, tensor: Any) -> None:
    """Show a tensor that somebody else made to the watcher, under `name`, without naming it."""
    mode = current()
    if mode.watcher is not None:
        mode.watcher(f"{mode.scope}.{name}" if mode.scope else name, tensor)


class drawing(_Switch):
    """Dropout patterns inside take (key, position of the batch's first entry) from `draws()` (see draws.py)."""

    def __init__(self, draws: Callable[[], tuple[tuple[int, int], int]]) -> None:
        self.draws = draws

    def _inner(self, now: Mode) -> Mode:
        return Mode(now.recording, now.scope, now.watcher, self.draws, now)
