"""TensorBoard's event files, where the extra `tensorboard` is installed; nothing elsewhere.

(By tensorboard itself, which whoever looks at them needs anyway.  The smaller tensorboardX imports PyTorch
wherever it finds it: 2 s and 300 MB before the first step.)"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def event_writer(folder: Path, step: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Gives a function that takes a step's numbers.  What earlier files say about steps after `step` is withdrawn."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except Exception as error:  # installed, but broken (a protobuf that does not fit): no reason to stop a training
        if not isinstance(error, ImportError):
            warnings.warn(f"no event files: tensorboard cannot be used ({error})", stacklevel=3)
        yield lambda row: None
        return
    writer = EventFileWriter(str(folder))

    def write(row: dict[str, Any]) -> None:
        values = [
            Summary.Value(tag=name.replace("held_out_", "held_out/"), simple_value=value)
            for name, value in row.items()
            if name != "step"
        ]
        writer.add_event(Event(wall_time=time.time(), step=row["step"], summary=Summary(value=values)))

    try:
        writer.add_event(Event(wall_time=time.time(), step=step + 1, session_log=SessionLog(status=SessionLog.START)))
        yield write
    finally:
        writer.close()
