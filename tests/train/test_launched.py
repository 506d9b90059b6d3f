"""MPI is touched only by a process that a launcher started, or that was asked to; without it there is a message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tinygrad_attn.cli.main import main
from tinygrad_attn.train.ranks import LAUNCHERS, launched
from tinygrad_attn.train.versions import code, differences


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in LAUNCHERS:
        for name in names:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("size, number", LAUNCHERS)
def test_each_launcher_is_known(size: str, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched() is None
    monkeypatch.setenv(size, "4")
    monkeypatch.setenv(number, "3")
    assert launched() == (4, 3)
    monkeypatch.setenv(size, "1")
    assert launched() is None  # one process needs no MPI


def test_a_process_alone_loads_no_mpi(tmp_path: Path) -> None:
    script = """
import sys
from tinygrad_attn.cli import main
flags = ["--steps", "1", "--d-model", "8", "--n-heads", "1", "--n-layers", "1", "--quiet", "--out", sys.argv[1]]
main(["train", "copy", *flags])
assert not {"mpi4py", "distributed", "dask"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")], check=True)


def test_without_mpi4py_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert main(["train", "copy", "--mpi", "--out", str(tmp_path)]) == 2
    assert "--mpi was asked for, but MPI cannot be used" in capsys.readouterr().err
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert main(["train", "copy", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert (
        "4 processes were started together, but MPI cannot be used" in said
        and "pip install 'tinygrad_attn[mpi]'" in said
    )
    assert not list(tmp_path.iterdir())


def test_which_code_runs() -> None:
    ours = code()
    assert differences(ours, dict(ours)) == ""
    assert differences(ours, ours | {"tinygrad_attn": "9.9 (00000000)"}).startswith(
        "tinygrad_attn 9.9 (00000000) instead of"
    )
    assert differences(ours, {}).count("instead of") == 3
