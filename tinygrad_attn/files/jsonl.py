"""Files of one JSON object a line, to which a run adds: a crash may cut the last line short, and nothing else is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


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
    """Rewrite the file with those whole lines that are `wanted`; whatever interrupts this, the old file or the new is there."""
    if not path.exists():
        return
    unfinished = path.with_suffix(".part")
    unfinished.write_text("".join(f"{line}\n" for line, row in whole_lines(path) if wanted(row)), encoding="utf-8")
    unfinished.replace(path)
