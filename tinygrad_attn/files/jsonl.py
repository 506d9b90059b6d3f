"""Files of one JSON object a line, to which a run adds: a crash may cut the last line short and loses nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .atomic import write_text


def whole_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(line, what it says) for each line that is whole.  Errors: OSError where there is no file."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield line, row


def keep_lines(path: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrite the file, if there is one, with those whole lines that are `wanted`."""
    if not path.exists():
        return
    write_text(path, "".join(f"{line}\n" for line, row in whole_lines(path) if wanted(row)))
