"""Every function of the array module that the package calls exists in CuPy, and takes the arguments given.

The calls are found in the source: ``module_of(x).NAME(...)``, ``module.NAME`` where ``module = module_of(...)``,
``xp.NAME``, and methods of arrays.  A CuPy wheel can be imported without a GPU: pip install cupy-cuda13x."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy_api
import numpy as np
import pytest

import tinygrad_attn

PACKAGE = Path(tinygrad_attn.__file__).parent
MAKERS = {"module_of", "_module", "_cupy"}  # functions that give an array module
NUMPY_ONLY = {"tile.py", "blocked.py", "threads.py"}  # fast paths that no CuPy array reaches
ON_THE_DEVICE = {"tinygrad_attn", "ops", "attention", "kernels", "nn", "optim"}  # folders whose arrays may be CuPy's
ON_THE_HOST = {("masks.py", "max"), ("testing.py", "max")}  # these are NumPy's
NOT_OF_ARRAYS = {"sort"}  # lists have it too


@dataclass(frozen=True)
class Use:
    """``module.add.at(out, index, x)``: path ("add", "at"), 3 positions, no keywords."""

    where: str
    path: tuple[str, ...]
    called: bool = False
    positions: int | None = None  # None: starred, so unknown
    keywords: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {'.'.join(self.path)}({', '.join(self.keywords)})"


class Finder(ast.NodeVisitor):
    """Collects the uses of array modules (`of_modules`) and the methods called on anything (`of_arrays`)."""

    def __init__(self, file: str, folder: str = "") -> None:
        self.file, self.folder = file, folder
        self.modules = {"xp", "cupy"} | ({"module"} if file == "backend.py" else set())
        self.imported: set[str] = set()
        self.of_modules: list[Use] = []
        self.of_arrays: list[Use] = []

    def is_module(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id in MAKERS
        if isinstance(node, ast.Attribute):
            return node.attr == "xp"
        return isinstance(node, ast.Name) and node.id in self.modules

    def visit_Import(self, node: ast.Import) -> None:
        self.imported |= {name.asname or name.name for name in node.names}  # np, math, json

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outside = set(self.modules)
        self.generic_visit(node)
        self.modules = outside  # names live in their function

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))  # a starred target takes the rest
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Call) and self.is_module(value):
                    self.modules.add(name.id)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            self.note(node.func, node)
            for child in (*node.args, *[k.value for k in node.keywords]):
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.note(node, None)

    def note(self, node: ast.Attribute, call: ast.Call | None) -> None:
        path, base = [node.attr], node.value
        while isinstance(base, ast.Attribute) and not self.is_module(base):
            path.insert(0, base.attr)
            base = base.value
        given: dict[str, Any] = {}
        if call is not None:
            starred = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
            given = {
                "called": True,
                "positions": None if starred else len(call.args),
                "keywords": tuple(k.arg for k in call.keywords if k.arg),
            }
        where = f"{self.file}:{node.lineno}"
        if self.is_module(base):
            self.of_modules.append(Use(where, tuple(path), **given))
        elif call is not None and not (isinstance(base, ast.Name) and base.id in self.imported):
            self.of_arrays.append(Use(where, (path[-1],), **given))
        self.visit(base)


def uses() -> Iterator[Finder]:
    for file in sorted(PACKAGE.rglob("*.py")):
        finder = Finder(file.name, file.parent.name)
        finder.visit(ast.parse(file.read_text()))
        if file.name not in NUMPY_ONLY:
            yield finder


def problem(use: Use, root: Any) -> str | None:
    """What is wrong with a use, if CuPy's module or array class is `root`."""
    found = root
    for name in use.path:
        if not hasattr(found, name):
            return f"{use}: CuPy has no {name}"
        found = getattr(found, name)
    if not use.called:
        return None
    known = cupy_api.parameters(found)
    for keyword in use.keywords:
        if known is not None and keyword not in known:
            return f"{use}: CuPy's takes {known}"
    if inspect.isfunction(found) and use.positions is not None:
        try:
            inspect.signature(found).bind(*range(use.positions), **dict.fromkeys(use.keywords))
        except TypeError as error:
            return f"{use}: {error}"
    return None


def test_the_finder_finds() -> None:
    finder = Finder("made_up.py")
    finder.visit(
        ast.parse(
            "def f(x, xp):\n"
            "    module, n = module_of(x), 3\n"
            "    module.add.at(x, 0, x)\n"
            "    xp.einsum('i', x, optimize=True)\n"
            "    self.xp.linalg.norm(*x)\n"
            "    return module_of(x).sum(x.itemset(3), axis=-1) * module.inf\n"
            "def g(module):\n"
            "    return module.parameters()\n"
        )
    )
    assert [(use.path, use.positions, use.keywords) for use in finder.of_modules] == [
        (("add", "at"), 3, ()),
        (("einsum",), 2, ("optimize",)),
        (("linalg", "norm"), None, ()),
        (("sum",), 1, ("axis",)),
        (("inf",), None, ()),
    ]
    assert [use.path for use in finder.of_arrays] == [("itemset",), ("parameters",)]


cupy_missing = "CuPy is not installed (pip install cupy-cuda13x: its names can be read without a GPU)"


def installed_cupy() -> Any:
    try:
        import cupy
    except ImportError:
        pytest.skip(cupy_missing)
    return cupy


def test_every_function_exists_in_cupy() -> None:
    cupy = installed_cupy()
    found = [use for finder in uses() for use in finder.of_modules]
    assert len(found) > 100  # the finder still understands the source
    assert [p for use in found if (p := problem(use, cupy))] == []


def test_every_method_of_arrays_exists_in_cupy() -> None:
    cupy = installed_cupy()
    found = [
        use
        for finder in uses()
        for use in finder.of_arrays
        if finder.folder in ON_THE_DEVICE
        and (finder.file, use.path[0]) not in ON_THE_HOST
        and hasattr(np.ndarray, use.path[0])
        and use.path[0] not in NOT_OF_ARRAYS
    ]
    assert len(found) > 100
    assert [p for use in found if (p := problem(use, cupy.ndarray))] == []


def test_the_record_that_the_strict_device_obeys_is_true() -> None:
    real, recorded = cupy_api.of_cupy(installed_cupy()), cupy_api.recorded()
    for part in ("module", "linalg", "ndarray"):
        missing = sorted(set(recorded[part]) - set(real[part]))
        assert missing == [], f"{part}: not in CuPy {real['version']}; run python tests/cupy_api.py"
        for name, keywords in recorded[part].items():
            now = real[part][name]
            assert keywords is None or now is None or set(keywords) <= set(now), f"{part}.{name}"
