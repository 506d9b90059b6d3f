"""``import tinygrad_attn`` costs little and loads NumPy and the standard library alone; names come when asked for."""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import tinygrad_attn as ta

LOADED = """
import sys, json
before = set(sys.modules)
import tinygrad_attn
every_name = [getattr(tinygrad_attn, name) for name in dir(tinygrad_attn)]
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
TIMED = """
import time
start = time.process_time()
import numpy, numpy.random
middle = time.process_time()
import tinygrad_attn
print((time.process_time() - middle) / (middle - start))
"""


def run(script: str, **environment: str) -> str:
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | environment
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=given).stdout


def test_it_loads_numpy_and_the_standard_library_alone() -> None:
    ours = {"numpy", "tinygrad_attn", "cython_runtime"}  # the last is NumPy's own
    foreign = set(json.loads(run(LOADED))) - set(sys.stdlib_module_names) - ours
    assert {name for name in foreign if not name.startswith("_")} == set()  # names with _ come from the interpreter


def test_it_adds_at_most_a_fifth_to_importing_numpy(tmp_path: Path) -> None:
    """A ratio of processor times in one process, with byte code at hand: the same on a slow or busy machine."""
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    run(TIMED, **compiled)
    assert statistics.median(float(run(TIMED, **compiled)) for _ in range(5)) < 0.2


def test_every_public_name_is_listed_found_and_kept() -> None:
    assert {"Tensor", "exp", "nn", "probe", "scaled_dot_product_attention"} <= set(ta.__all__) <= set(dir(ta))
    for name in ta.__all__:
        assert getattr(ta, name) is vars(ta)[name]  # asked for once, it stays


def test_editors_and_type_checkers_see_the_names_that_are_there() -> None:
    """What stands under TYPE_CHECKING is what HOME says, module by module."""
    tree = ast.parse(Path(ta.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen: dict[str, set[str]] = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        seen.setdefault(line.module or "", set()).update(name.name for name in line.names)
    modules = seen.pop("") | seen.pop("autodiff")
    assert modules == {*ta.MODULES} - {"attention", "autodiff"}
    assert seen.pop("autodiff.functions") == {"*"}
    assert seen == {module: set(names.split()) for module, names in ta.HOME.items() if module != "autodiff.functions"}


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="module 'tinygrad_attn' has no attribute 'softmx'"):
        ta.softmx  # noqa: B018
