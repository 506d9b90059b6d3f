"""Which code runs here?  Processes that share one job must run the same."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

import numpy as np

from .. import __version__


@cache
def code() -> dict[str, str]:
    """Versions, by name: of this package (with a digest of its sources), NumPy and Python.

    >>> sorted(code())
    ['numpy', 'python', 'tinygrad_attn']
    """
    package, digest = Path(__file__).parent.parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return {
        "tinygrad_attn": f"{__version__} ({digest.hexdigest()[:8]})",
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def differences(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """What differs between two answers of ``code()``; empty where nothing does.

    >>> differences({"numpy": "2.0", "python": "3.11"}, {"numpy": "2.1", "python": "3.11"})
    'numpy 2.1 instead of 2.0'
    """
    return ", ".join(
        f"{name} {theirs.get(name)} instead of {version}"
        for name, version in ours.items()
        if theirs.get(name) != version
    )
