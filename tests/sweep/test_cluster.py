"""Sweeps on real Dask clusters: workers are killed, cells fail, schedulers are not there, versions differ.

python -m pytest -m dask"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tinygrad_attn
from tinygrad_attn.cli.main import main
from tinygrad_attn.sweep.plan import read
from tinygrad_attn.sweep.run import work

pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="dask.distributed is not installed"),
]

GRADIENTS = 'run = "gradients"\nseeds = 2\n[fixed]\nrows = 64\n[grid]\nd_k = [4, 16]\n'
LONGER = (
    'run = "successor"\nseeds = 12\n[fixed]\nsteps = 150\n[grid]\nd_k = [16, 17]\n'  # a cell takes about half a second
)
FAILING = 'run = "train"\n[fixed]\ntask = "copy"\nsteps = 2\nbatch = 2\nd_model = 12\n[grid]\nn_heads = [1, 5, 3]\n'


def started(path: Path, content: str, *flags: str, **popen: Any) -> subprocess.Popen[str]:
    path.write_text(content)
    command = [sys.executable, "-m", "tinygrad_attn", "sweep", str(path), "--out", str(path.with_suffix("")), *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **popen)


def results(path: Path) -> list[dict[str, str]]:
    with open(path.with_suffix("") / "results.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def complete(path: Path) -> None:
    """Every cell is there once, and holds what this process computes for it."""
    rows, cells = results(path), read(path).cells
    assert len(rows) == len(cells) and not any(row["error"] for row in rows)
    for row, cell in random.Random(0).sample(list(zip(rows, cells)), 2):
        assert all(float(row[name]) == value for name, value in work(cell.run, cell.settings)["results"].items())
    assert not list(path.with_suffix("").rglob("*.part"))


def test_a_failing_cell_does_not_end_the_sweep(tmp_path: Path) -> None:
    process = started(tmp_path / "a.toml", FAILING, "--workers", "1")
    said, _ = process.communicate(timeout=120)
    rows = results(tmp_path / "a.toml")
    assert process.returncode == 1 and "n_heads must divide d_model" in rows[1]["error"]
    assert rows[0]["held_out_loss"] and rows[2]["held_out_loss"] and not rows[1]["held_out_loss"]
    assert "failed: task = copy" in said and "1 failed" in " ".join(said.split()) and "\x1b" not in said
    assert len(list((tmp_path / "a" / "cells").iterdir())) == 2  # the failed one is tried again next time


def test_kill_of_a_worker_at_random_moments(tmp_path: Path) -> None:
    """kill -9, three times: its cell goes to another worker, and all results are right."""
    rng, path = random.Random(int(time.time())), tmp_path / "a.toml"
    process, killed = started(path, LONGER, "--workers", "2"), []
    done = path.with_suffix("") / "cells"
    for kept in (1, 6, 11):
        wait_until(lambda kept=kept: len(list(done.glob("*.json"))) >= kept or process.poll() is not None)
        time.sleep(rng.uniform(0.0, 0.5))
        workers = [pid for pid in processes_of(process.pid) if "multiprocessing.spawn" in command_of(pid)]
        assert workers, "no worker was there to kill"
        killed.append(rng.choice(workers))
        os.kill(killed[-1], signal.SIGKILL)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert len(set(killed)) == 3
    complete(path)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_goes_on_where_it_was(tmp_path: Path, kind: signal.Signals) -> None:
    path = tmp_path / "a.toml"
    process = started(path, LONGER)
    done = path.with_suffix("") / "cells"
    wait_until(lambda: len(list(done.glob("*.json"))) >= 3)
    process.send_signal(kind)
    said, _ = process.communicate(timeout=60)
    kept = {file.name: file.stat().st_mtime_ns for file in done.glob("*.json")}
    assert process.returncode == 130 and "the same command goes on with the rest" in said and "Traceback" not in said
    assert 3 <= len(kept) < 24 and len(results(path)) == len(kept)
    process = started(path, LONGER, "--quiet")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and said == ""
    assert all((done / name).stat().st_mtime_ns == when for name, when in kept.items())  # not one was run again
    complete(path)


# ---------------------------------------------------------------------------- a scheduler elsewhere


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    address = f"tcp://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path)
    wait_until(lambda: answers(address))
    yield address
    process.kill()
    process.wait()


def worker(address: str, folder: Path, package: Path | None = None) -> subprocess.Popen[bytes]:
    """A worker that loads our package from `package` (None: as this process does)."""
    source = package or Path(tinygrad_attn.__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        address,
        "--nthreads",
        "1",
        "--no-dashboard",
        "--no-nanny",
    ]
    environment = os.environ | {"PYTHONPATH": str(source)}
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder, env=environment)


def test_a_scheduler_with_workers(scheduler: str, tmp_path: Path) -> None:
    process = worker(scheduler, tmp_path)
    try:
        (tmp_path / "a.toml").write_text(GRADIENTS)
        assert main(["sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "a"), "--scheduler", scheduler]) == 0
        complete(tmp_path / "a.toml")
    finally:
        process.kill()
        process.wait()


def test_mixed_versions(scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other" / "tinygrad_attn"
    shutil.copytree(Path(tinygrad_attn.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "train" / "loop.py").write_text((other / "train" / "loop.py").read_text() + "\n# edited\n")
    process = worker(scheduler, tmp_path, other.parent)
    try:
        (tmp_path / "a.toml").write_text(GRADIENTS)
        assert main(["sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "a"), "--scheduler", scheduler]) == 2
        said = capsys.readouterr().err
        assert "runs other code: tinygrad_attn 0.1.0 (" in said and "install the same everywhere" in said
        assert not list((tmp_path / "a" / "cells").iterdir())
    finally:
        process.kill()
        process.wait()


def test_a_scheduler_without_workers(
    scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinygrad_attn.sweep.cluster.WORKERS_WITHIN", 1.0)
    (tmp_path / "a.toml").write_text(GRADIENTS)
    assert main(["sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "a"), "--scheduler", scheduler]) == 2
    assert f"{scheduler} has no workers" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["closed", "silent", "nonsense", "scheme"])
def test_a_scheduler_that_does_not_answer(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinygrad_attn.sweep.cluster.PATIENCE", 1.0)
    (tmp_path / "a.toml").write_text(GRADIENTS)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = {"closed": free_port(), "silent": listening.getsockname()[1]}.get(kind)
        address = {"nonsense": "nonsense", "scheme": "foo://127.0.0.1:1"}.get(kind, f"tcp://127.0.0.1:{port}")
        begun = time.monotonic()
        assert main(["sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "a"), "--scheduler", address]) == 2
    said = capsys.readouterr().err
    assert f"no scheduler answers at {address} within 1 s" in said and len(said.splitlines()) == 1
    assert time.monotonic() - begun < 8


def test_a_scheduler_that_dies(scheduler: str, tmp_path: Path) -> None:
    """The sweep ends, says so, and keeps what is finished."""
    path, helper = tmp_path / "a.toml", worker(scheduler, tmp_path)
    try:
        process = started(path, LONGER, "--scheduler", scheduler)
        done = path.with_suffix("") / "cells"
        wait_until(lambda: len(list(done.glob("*.json"))) >= 2 or process.poll() is not None)
        (pid,) = [pid for pid in processes_of(os.getpid()) if "dask_scheduler" in command_of(pid)]
        os.kill(pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=90)
        assert process.returncode in (1, 2) and "Traceback" not in said, said
        kept = list(done.glob("*.json"))
        assert len(kept) >= 2 and all(json.loads(file.read_text())["results"] for file in kept)
    finally:
        helper.kill()
        helper.wait()


# ---------------------------------------------------------------------------- watching


def wait_until(holds: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(address: str) -> bool:
    host, _, port = address.removeprefix("tcp://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def processes_of(pid: int) -> list[int]:
    """All processes that descend from `pid`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found.append((parent, int(path.parent.name)))
    below, grown = {pid}, True
    while grown:
        more = {child for parent, child in found if parent in below} - below
        below, grown = below | more, bool(more)
    return sorted(below - {pid})


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
