"""A lock that the system frees when its process ends, however it ends."""

from __future__ import annotations

import os
from typing import Any


def taken(file: Any) -> bool:
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
