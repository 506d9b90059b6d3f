"""How many threads NumPy's BLAS uses: asked and told through the library that NumPy itself brought."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np


@lru_cache(maxsize=1)
def blas_threads() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """(get, set) for the number of threads of NumPy's BLAS, or None where nobody can say."""
    root = Path(np.__file__).parent
    wheels = (root.with_name("numpy.libs"), root / ".dylibs")  # where wheels put their OpenBLAS
    for path in (file for folder in wheels if folder.is_dir() for file in folder.iterdir() if "openblas" in file.name):
        library = ctypes.CDLL(str(path))
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            if hasattr(library, name := f"{prefix}openblas_set_num_threads{suffix}"):
                return getattr(library, name.replace("_set_", "_get_")), getattr(library, name)
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return None
    found = [each for each in ThreadpoolController().lib_controllers if each.user_api == "blas"]
    return (found[0].get_num_threads, found[0].set_num_threads) if found else None


@contextmanager
def one_thread_blas() -> Iterator[None]:
    """Products run on the thread that asks, for the whole process; attention's own threads stay off then, too.
    Toy matrices gain: a second BLAS thread only waits for the first.

    Where nobody can say how many threads BLAS uses, nothing is changed: slower, and as right."""
    blas = blas_threads()
    before = blas[0]() if blas else 0
    try:
        if blas:
            blas[1](1)
        yield
    finally:
        if blas:
            blas[1](before)
