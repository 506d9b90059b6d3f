"""Writing a file whole: whatever interrupts it, the old file or the new one is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[Any]:
    """An open file whose content stands at `path` once the block has ended well; else `path` stays as it was.

    Written beside it, synced to the disk, renamed, and the folder synced: so it outlasts a power cut, too.
    That takes some milliseconds.  mode: "w" for UTF-8 text, "wb" for bytes.  Errors: OSError."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(unfinished, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        _sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Errors: OSError."""
    with replacing(path) as file:
        file.write(text)


def _sync_folder(folder: Path) -> None:
    """Make a rename last.  (Windows has no such call, and needs none.)"""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
