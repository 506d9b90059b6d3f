"""One writer at a time in a folder: a lock that the system frees when its process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import UserError, as_user_error


@contextmanager
def locked(folder: Path, who: str) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be.  who: what writes there ("run"), for the message.

    Errors: UserError while another process holds it, or where nothing can be written."""
    with as_user_error(OSError, doing=f"cannot write to {folder}", remedy="choose another with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / "lock", "a+")  # noqa: SIM115 (it stays open while the lock is held)
    with file:
        if not _taken(file):
            raise UserError(
                f"{folder}: another {who} is writing here; wait for it, or choose another folder with --out"
            )
        yield


def _taken(file: Any) -> bool:
    """Take the lock of an open file; False where another process has it.  It goes when the file is closed."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
