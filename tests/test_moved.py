"""Old import paths work for one version, and say what to write."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tinygrad_attn.moved import PATHS, new_path

OPTIONAL = {"play"}  # needs an extra


@pytest.mark.parametrize("old", [old for old in PATHS if old not in OPTIONAL])
def test_an_old_path_is_the_new_module_and_says_so(old: str) -> None:
    name = f"tinygrad_attn.{old}"
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"{name} has moved: write {new_path(name)}"):
        assert importlib.import_module(name) is importlib.import_module(new_path(name))


def test_what_lies_below_moved_with_it() -> None:
    code = "from tinygrad_attn.ops.softmax import softmax; import tinygrad_attn.nn.tensorfile; print(softmax.op.name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "softmax\n" and "write tinygrad_attn.autodiff.ops.softmax" in done.stderr


def test_a_name_that_never_was_stays_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tinygrad_attn\.nowhere"):
        importlib.import_module("tinygrad_attn.nowhere")
