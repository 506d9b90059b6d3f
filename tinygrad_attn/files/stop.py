"""Being asked to stop: what is half done is brought to an end, so that what is on disk stays whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def on_stop(act: Callable[[], object]) -> Iterator[None]:
    """Inside the block the first Ctrl-C (or SIGTERM, from a scheduler of jobs) calls `act`; the later
    ones do what they did before."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is told
        yield
        return
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for kind, handler in before.items():
            signal.signal(kind, handler)

    def on_signal(kind: int, frame: Any) -> None:
        restore()
        act()

    for kind in before:
        signal.signal(kind, on_signal)
    try:
        yield
    finally:
        restore()
