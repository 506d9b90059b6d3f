"""Every example in a docstring runs and prints what it says, those of operations too."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from typing import Any

import pytest

import tinygrad_attn as ta
from tinygrad_attn.autodiff.graph import Op

OPTIONAL = {"cupy", "marimo", "matplotlib", "torch", "mpi4py", "dask", "tensorboard"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[Any]:
    found = []
    for info in pkgutil.walk_packages(ta.__path__, "tinygrad_attn."):
        if info.name.endswith("__main__"):
            continue
        try:
            found.append(importlib.import_module(info.name))
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
    return found


def examples() -> dict[str, doctest.DocTest]:
    """Of each module what doctest finds, and its operations, which are closures that doctest passes by."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for module in [ta, *modules()]:
        tests = finder.find(module)
        for name, value in vars(module).items():
            made = getattr(value, "op", None)
            if isinstance(made, Op) and made.forward.__module__ == module.__name__:
                tests += finder.find(value, f"{module.__name__}.{name}", module=False, globs=dict(vars(module)))
        found.update({test.name: test for test in tests if test.examples})
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    lines: list[str] = []
    runner.run(EXAMPLES[name], out=lines.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(lines)


def test_every_operation_has_an_example() -> None:
    names = {name.rpartition(".")[2] for name in EXAMPLES}
    operations = {made.name for name in ta.__all__ if isinstance(made := getattr(getattr(ta, name), "op", None), Op)}
    assert operations - names == set()
