"""``import tinygrad_attn`` costs little and loads NumPy and the standard library alone."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

LOADED = """
import sys, json
before = set(sys.modules)
import tinygrad_attn
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
TIMED = """
import time, numpy
start = time.process_time()
import tinygrad_attn
print(time.process_time() - start)
"""


def run(script: str, **environment: str) -> str:
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | environment
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=given).stdout


def test_it_loads_numpy_and_the_standard_library_alone() -> None:
    ours = {"numpy", "tinygrad_attn", "cython_runtime"}  # the last is NumPy's own
    foreign = set(json.loads(run(LOADED))) - set(sys.stdlib_module_names) - ours
    assert {name for name in foreign if not name.startswith("_")} == set()  # names with _ come from the interpreter


def test_it_adds_little_to_importing_numpy(tmp_path: Path) -> None:
    """The goal is 50 ms.  Counted in processor time, compiled once, and twice that for a busy machine."""
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    run(TIMED, **compiled)
    assert statistics.median(float(run(TIMED, **compiled)) for _ in range(5)) < 0.1
