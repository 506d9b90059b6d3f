"""These tests are collected with ``-m peers`` alone, and where PyTorch is installed."""

from importlib.util import find_spec

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return (
        True if "peers" not in config.option.markexpr.replace("not peers", "") or find_spec("torch") is None else None
    )
