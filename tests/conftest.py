"""What all tests share: one BLAS thread each, the marker `core`, and how Hypothesis draws.

The draws are the same in every run; ``pytest --hypothesis-profile explore`` looks further."""

import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # toy matrices: a second BLAS thread only waits for the first
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it: output in a pipe is tested as it is without

import pytest
from hypothesis import settings

settings.register_profile("same", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("same")

CORE = [Path(__file__).parent / room for room in ("autodiff", "attention", "nn", "optim")]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For `-m core` the other folders are not even read: that alone would take seconds."""
    tests = Path(__file__).parent
    elsewhere = collection_path.parent == tests and collection_path not in CORE
    return True if config.option.markexpr == "core" and elsewhere else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folders of the engine are the `core`, but for what is left out of a plain run as well."""
    for item in items:
        elsewhere = any(item.get_closest_marker(name) for name in ("peers", "slow", "mpi", "dask"))
        if not elsewhere and any(item.path.is_relative_to(folder) for folder in CORE):
            item.add_marker(pytest.mark.core)
