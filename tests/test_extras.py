"""A fresh clone with the extra `test`, and no other, collects every test: what needs more is skipped, and says so."""

import ast
import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONAL = ("peers", "benchmarks", "gpu")  # folders whose tests bring packages of their own


def declared():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = settings["options"]["install_requires"] + settings["options.extras_require"]["test"]
    return set(re.findall(r"^\s*([a-zA-Z_]+)", lines, re.M))


def imported(path):
    """The packages that a file imports when it is loaded, not within a function."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import):
            yield from (name.name.partition(".")[0] for name in statement.names)
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            yield statement.module.partition(".")[0]


def test_every_import_of_a_test_is_in_the_extra_test():
    ours = {path.stem for path in (ROOT / "tests").rglob("*")} | {"tinygrad_attn"}
    known = declared() | ours | set(sys.stdlib_module_names)
    files = [p for p in (ROOT / "tests").rglob("*.py") if p.relative_to(ROOT / "tests").parts[0] not in OPTIONAL]
    missing = {(path.name, name) for path in files for name in imported(path) if name not in known}
    assert len(files) > 50 and not missing


def test_tests_are_collected_without_the_other_extras(tmp_path):
    for name in (
        "matplotlib",
        "marimo",
        "nbformat",
        "tensorboard",
        "mpi4py",
        "dask",
        "distributed",
        "torch",
        "selenium",
    ):
        (tmp_path / f"{name}.py").write_text(
            "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"
        )
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not peers", "-p", "no:cacheprovider"]
    found = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-2000:]
