"""What is in force right now: is the graph recorded, under which path of names, and who watches.

One immutable `Mode` per thread and per async task (a context variable), so that ``no_grad`` in one
thread or coroutine never leaks into another.  Every context manager here puts a new Mode in place
whose `outer` is the one before, and puts that one back on exit, also after an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .switch import F, decorated


class Mode:
    """recording: do operations on tensors build the graph?  scope: path of names ("blocks.0.attn").
    watcher: called with (path, tensor) for each named tensor, or None.
    draws: gives the keys of dropout patterns in place of the seeded generator, or None.
    listener: called with each operation that runs, or None (see ``listening``).
    caller: the module whose forward runs, or None."""

    __slots__ = ("recording", "scope", "watcher", "draws", "listener", "caller", "outer")

    def __init__(
        self,
        recording: bool = True,
        scope: str = "",
        watcher: Any = None,
        draws: Any = None,
        listener: Any = None,
        caller: Any = None,
        outer: Mode | None = None,
    ) -> None:
        self.recording, self.scope, self.watcher, self.draws = recording, scope, watcher, draws
        self.listener, self.caller, self.outer = listener, caller, outer

    def but(self, **changes: Any) -> Mode:
        """This mode with `changes`; it ends where this one is put back."""
        made = Mode(self.recording, self.scope, self.watcher, self.draws, self.listener, self.caller, self)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def path(self, name: str) -> str:
        """`name` under the scope in force: ``"blocks.0.attn.scores"``."""
        return f"{self.scope}.{name}" if self.scope else name


MODE: ContextVar[Mode] = ContextVar("mode", default=Mode())  # noqa: B039 (never changed)
current = MODE.get


class Switch:
    """A context manager that changes the Mode; one object may be entered again while it is in force."""

    def inner(self, now: Mode) -> Mode:
        raise NotImplementedError

    def __enter__(self) -> Any:
        MODE.set(self.inner(current()))
        return self

    def __exit__(self, *_: object) -> None:
        outer = current().outer
        if outer is not None:  # None: a generator that is closed in another thread was never entered there
            MODE.set(outer)

    def __call__(self, function: F) -> F:
        """As a decorator: the whole call runs inside; of a generator function, each of its steps."""
        return decorated(function, self, MODE)


class no_grad(Switch):
    """Nothing inside is recorded: results have no gradient.  A context manager and a decorator.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> with ta.no_grad():
    ...     print((2 * w).requires_grad)
    False
    """

    def inner(self, now: Mode) -> Mode:
        return now.but(recording=False)


class enable_grad(Switch):
    """Record again inside a ``no_grad`` block.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> with ta.no_grad(), ta.enable_grad():
    ...     print((2 * w).requires_grad)
    True
    """

    def inner(self, now: Mode) -> Mode:
        return now.but(recording=True)


class scope(Switch):
    """Names given inside get `name` and a dot in front: ``"scores"`` becomes ``"attn.scores"``.

    >>> import tinygrad_attn as ta
    >>> with ta.scope("attn"):
    ...     print(ta.ones(2).named("scores").name)
    attn.scores
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def inner(self, now: Mode) -> Mode:
        return now.but(scope=now.path(self.name))


class watching(Switch):
    """`watcher(path, tensor)` is called for every tensor that is named inside.  A watcher with an attribute
    ``values_only = True`` never asks for gradients; fused operations then show it constants, which cost less."""

    def __init__(self, watcher: Callable[[str, Any], None]) -> None:
        self.watcher = watcher

    def inner(self, now: Mode) -> Mode:
        return now.but(watcher=self.watcher)


def show(name: str, tensor: Any) -> None:
    """Show a tensor that somebody else made to the watcher, under `name`, without naming it."""
    mode = current()
    if mode.watcher is not None:
        mode.watcher(mode.path(name), tensor)


class drawing(Switch):
    """Dropout patterns inside take (key, position of the batch's first entry) from `draws()` (see random.py)."""

    def __init__(self, draws: Callable[[], tuple[tuple[int, int], int]]) -> None:
        self.draws = draws

    def inner(self, now: Mode) -> Mode:
        return now.but(draws=self.draws)


class listening(Switch):
    """``listener(what, inputs, out, frame)`` is called after every operation on tensors inside, recorded or not: `what`
    is the Op, or how a value left the graph ("detach()", ".data", "numpy()", "item()", "Tensor(...)"); `inputs` are the
    operands as they came, `frame` is that of the call (ask it for its line at once, keep it never)."""

    def __init__(self, listener: Callable[[Any, list[Any], Any, Any], None]) -> None:
        self.listener = listener

    def inner(self, now: Mode) -> Mode:
        return now.but(listener=self.listener)
