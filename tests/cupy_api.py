"""What CuPy has: its functions, its array's methods and the keywords they take, recorded from the real package.

The strict device (strict_device.py) offers these names and no others, also where CuPy is not installed.
``python tests/cupy_api.py`` (with a CuPy wheel installed, no GPU needed) writes cupy_api.json anew;
test_cupy_names.py compares the record with the CuPy that is installed."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("cupy_api.json")

# name -> keywords that it takes; None where CuPy does not tell (``**kwargs``, types, constants)
Names = dict[str, list[str] | None]

UFUNC = ["out", "dtype", "casting"]  # no where=, no subok=, no order=: `ufunc.__call__` in cupy/_core/_kernel.pyx


def parameters(function: Any) -> list[str] | None:
    """The keywords of a function, or of a compiled method that gives its signature in its docstring."""
    if not callable(function) or isinstance(function, type):
        return None
    if type(function).__name__ == "ufunc":
        return UFUNC
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        line = (function.__doc__ or "").partition("\n")[0]
        inside = re.fullmatch(r"\w+\.\w+\((.*)\)(?: ->.*)?", line)
        if inside is None:
            return None
        words = [part.partition("=")[0].strip().rpartition(" ")[2] for part in inside[1].split(",")]
        return [word for word in words if word != "self" and not word.startswith("*")]
    if any(p.kind is p.VAR_KEYWORD for p in found):
        return None
    return [p.name for p in found if p.kind is not p.VAR_POSITIONAL and p.name != "self"]


def of_module(module: Any, like: Any) -> Names:
    """The public names that `module` shares with `like` (CuPy with NumPy: what code for both may use)."""
    return {
        name: parameters(getattr(module, name))
        for name in sorted(set(dir(module)) & set(dir(like)))
        if not name.startswith("_") and not inspect.ismodule(getattr(module, name))
    }


def of_cupy(cupy: Any) -> dict[str, Any]:
    return {
        "version": cupy.__version__,
        "module": of_module(cupy, np),
        "linalg": of_module(cupy.linalg, np.linalg),
        "ndarray": of_module(cupy.ndarray, np.ndarray),
        "ufunc": sorted(name for name in dir(cupy.add) if not name.startswith("_") and hasattr(np.add, name)),
    }


def recorded() -> dict[str, Any]:
    return json.loads(FILE.read_text())  # type: ignore[no-any-return]


if __name__ == "__main__":
    import cupy

    text = json.dumps(of_cupy(cupy))
    FILE.write_text(text.replace('], "', '],\n"').replace('null, "', 'null,\n"') + "\n")  # a name per line
