"""A fresh clone with the extra `test` collects every test: what a test file imports at its top is declared there."""

import ast
import configparser
import re
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
