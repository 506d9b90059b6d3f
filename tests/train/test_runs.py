"""A run is never lost: killed, stopped, on a full disk, with damaged files, two at once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_attn.cli import main
from tinygrad_attn.train.checkpoint import CheckpointError, load, save
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory, RunError
from tinygrad_attn.train.settings import Settings, preset, task_of
from tinygrad_attn.train.workers import Threads

SMALL: dict[str, Any] = {"d_model": 8, "n_heads": 1, "n_layers": 1, "batch": 4, "dropout": 0.1, "warmup": 2}

RUN = """
import sys
from pathlib import Path
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import Settings, task_of
from tinygrad_attn.train.workers import Threads
import json
directory, settings = RunDirectory(Path(sys.argv[1])), Settings(**json.loads(sys.argv[2]))
with directory.locked():
    trainer = Trainer(*task_of(settings), Threads(int(sys.argv[3])))
    directory.resume(trainer) if directory.exists else directory.begin(trainer.settings)
    train_in(directory, trainer)
"""


def start(folder: Path, settings: Settings, workers: int = 1) -> subprocess.Popen[bytes]:
    """A process that trains in `folder`, from its last checkpoint if there is one."""
    return subprocess.Popen([sys.executable, "-c", RUN, str(folder), json.dumps(settings.to_dict()), str(workers)])


def undisturbed(folder: Path, settings: Settings, workers: int = 1) -> Trainer:
    directory = RunDirectory(folder)
    with directory.locked():
        trainer = Trainer(*task_of(settings), Threads(workers))
        directory.begin(trainer.settings)
        train_in(directory, trainer)
    return trainer


def results(folder: Path) -> tuple[list[tuple[Any, ...]], dict[str, np.ndarray]]:
    """What a run measured, step by step, and its last weights and moments."""
    directory = RunDirectory(folder)
    names = ("step", "loss", "norm", "lr", "held_out_loss")
    last = directory.last()
    assert last is not None
    return [tuple(row.get(name) for name in names) for row in directory.measured()], load(last)[0]


def equal(a: Path, b: Path) -> None:
    (rows, tensors), (other_rows, other_tensors) = results(a), results(b)
    assert rows == other_rows
    assert tensors.keys() == other_tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(tensors[name], other_tensors[name])


def wait_for_step(folder: Path, process: subprocess.Popen[bytes], more: int, seconds: float = 60.0) -> None:
    """Until metrics.jsonl has `more` lines more than now (or the process has ended)."""
    path = folder / "metrics.jsonl"

    def lines() -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    first, deadline = lines(), time.monotonic() + seconds
    while lines() < first + more and process.poll() is None:
        assert time.monotonic() < deadline, "no step was made"
        time.sleep(0.003)


def killed(tmp_path: Path, times: int, seed: int, workers: int = 1) -> None:
    rng = random.Random(seed)
    settings = preset("copy", **SMALL, steps=60 * (times + 1), save_every=3, eval_every=50)
    undisturbed(tmp_path / "whole", settings, workers)
    folder, kills = tmp_path / "killed", 0
    while kills < times:
        process = start(folder, settings, workers)
        wait_for_step(folder, process, 1)
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        assert len(RunDirectory(folder).saved()) <= settings.keep + 1
        for path in RunDirectory(folder).saved():
            load(path)  # each one is whole
        if process.returncode == 0:
            break
    assert start(folder, settings, workers).wait() == 0
    assert kills, "the run ended before it could be killed"
    equal(folder, tmp_path / "whole")
    assert not list((folder / "checkpoints").glob("*.part"))


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_kill_at_random_moments(tmp_path: Path) -> None:
    killed(tmp_path, times=3, seed=int(time.time()))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_at_twenty_random_moments(tmp_path: Path, workers: int) -> None:
    killed(tmp_path, times=20 if workers == 1 else 5, seed=int(time.time()), workers=workers)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("stop_at", [1, 6, 9])
def test_a_resumed_run_equals_one_never_stopped(tmp_path: Path, workers: int, stop_at: int) -> None:
    settings = preset("text", **SMALL, context=16, steps=10, save_every=3, eval_every=4)
    undisturbed(tmp_path / "whole", settings, workers)
    directory = RunDirectory(tmp_path / "parts")

    class Stop(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == stop_at:
            raise Stop

    with directory.locked():
        trainer = Trainer(*task_of(settings), Threads(workers))
        directory.begin(trainer.settings)
        with pytest.raises(Stop):
            train_in(directory, trainer, stop)
    with directory.locked():
        trainer = Trainer(*task_of(settings), Threads(workers))
        directory.resume(trainer)
        assert trainer.step == {1: 0, 6: 4, 9: 8}[stop_at]  # at each third step, and where the held-out loss was best
        train_in(directory, trainer)
    equal(tmp_path / "parts", tmp_path / "whole")


# ---------------------------------------------------------------------------- stopping


def command(folder: Path, *more: str, **popen: Any) -> subprocess.Popen[str]:
    flags = ["--d-model", "8", "--n-heads", "1", "--n-layers", "1", "--batch", "4", "--out", str(folder), *more]
    return subprocess.Popen([sys.executable, "-m", "tinygrad_attn", "train", "copy", *flags], text=True, **popen)


def test_ctrl_c_ends_after_the_step_with_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = command(folder, "--steps", "100000", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for_step(folder, process, 5)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    directory = RunDirectory(folder)
    rows, last = directory.measured(), directory.last()
    assert process.returncode == 130 and last is not None
    assert f"stopped after step {rows[-1]['step']}; go on with --resume" in said
    assert "\x1b" not in said  # a pipe is no terminal
    assert load(last)[1]["step"] == rows[-1]["step"]


def test_resume_takes_as_many_workers_as_the_run_began_with(tmp_path: Path) -> None:
    flags = ["--steps", "30", "--save-every", "10", "--workers", "3"]
    assert command(tmp_path / "whole", *flags, "--quiet").wait() == 0
    process = command(tmp_path / "parts", *flags, "--quiet")
    wait_for_step(tmp_path / "parts", process, 12)
    process.kill()
    process.wait()
    assert command(tmp_path / "parts", "--resume", "--quiet").wait() == 0
    assert RunDirectory(tmp_path / "parts").workers() == 3
    equal(tmp_path / "parts", tmp_path / "whole")


def test_the_command_from_start_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    flags = ["--out", folder, "--steps", "6", "--eval-every", "3", "--d-model", "8", "--n-heads", "2", "--n-layers", "1"]
    assert main(["train", "agreement", *flags, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["steps"] == 6
    assert [row["step"] for row in RunDirectory(tmp_path / "run").measured()] == [1, 2, 3, 4, 5, 6]
    for name in ("summary.json", "sample.txt", "loss.png", "attention.png"):
        assert (tmp_path / "run" / name).stat().st_size, name
    assert main(["train", "agreement", *flags]) == 2
    assert "holds a run already; go on with it by --resume" in capsys.readouterr().err
    assert main(["train", "agreement", "--out", folder, "--resume", "--steps", "9"]) == 2
    assert "asked for steps 9 (the run has 6)" in capsys.readouterr().err
    assert main(["train", "agreement", "--out", folder, "--resume"]) == 0  # done already: makes the pictures again
    assert main(["sample", folder, "--prompt", "I work , you work , he ___"]) == 0
    assert "I work , you work , he ___" in capsys.readouterr().out
    assert main(["attend", folder, "I work , you work , he ___"]) == 0
    said = capsys.readouterr().out
    assert "layer 0, head 1" in said and "\x1b" not in said and (tmp_path / "run" / "attend.png").exists()
    assert main(["attend", folder, "I jump"]) == 2
    assert "not in the vocabulary: 'jump'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, message",
    [
        (["copy", "--resume"], "no run in"),
        (["copy", "--batch", "0"], "batch: expected at least 1, got 0"),
        (["copy", "--text", "a.txt"], "only the task `text` reads a file"),
        (["text", "--text", "/does/not/exist"], "No such file"),
        (["copy", "--device", "tpu"], "unknown device 'tpu'"),
        (["copy", "--workers", "65"], "65 workers cannot share 64 rows"),
        (["copy", "--n-heads", "5"], "n_heads must divide d_model"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    assert main(["train", *flags, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_second_run_in_one_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunDirectory(tmp_path).locked():
        for flags in ([], ["--resume"]):
            assert main(["train", "copy", "--out", str(tmp_path), *flags]) == 2
            assert "another run is writing here" in capsys.readouterr().err
    with RunDirectory(tmp_path).locked():
        pass  # free again


# ---------------------------------------------------------------------------- damage


@pytest.fixture
def finished(tmp_path: Path) -> RunDirectory:
    settings = preset("copy", **SMALL, steps=6, save_every=2, eval_every=3)
    undisturbed(tmp_path / "run", settings)
    return RunDirectory(tmp_path / "run")


def resumed(directory: RunDirectory) -> Trainer:
    trainer = Trainer(*task_of(directory.settings()))
    directory.resume(trainer)
    return trainer


def test_every_flipped_bit_is_found(finished: RunDirectory) -> None:
    path, rng = finished.last(), random.Random(0)
    assert path is not None
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    places = [rng.randrange(8 * header) for _ in range(300)] + [rng.randrange(8 * len(content)) for _ in range(100)]
    for place in places:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            load(path)
    path.write_bytes(content)
    load(path)


def test_a_truncated_checkpoint(finished: RunDirectory) -> None:
    path = finished.last()
    assert path is not None
    content, metrics = path.read_bytes(), (finished.path / "metrics.jsonl").read_bytes()
    for length in (0, 7, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="truncated") as error:
            resumed(finished)
        assert path.name in str(error.value) and "To go on from the checkpoint before it" in str(error.value)
        assert path.stat().st_size == length  # nothing is overwritten
    assert (finished.path / "metrics.jsonl").read_bytes() == metrics
    path.unlink()
    assert resumed(finished).step == 4


def test_a_foreign_or_missing_checkpoint(finished: RunDirectory, tmp_path: Path) -> None:
    path = finished.last()
    assert path is not None
    other = Trainer(*task_of(preset("copy", **{**SMALL, "d_model": 16})))
    other.model.save(path)
    with pytest.raises(CheckpointError, match="not a checkpoint of a training run"):
        resumed(finished)
    save(other, path)
    with pytest.raises(CheckpointError, match=r"from a run with other settings: steps 300 \(here 6\), d_model 16 \(here 8\)"):
        resumed(finished)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load(tmp_path / "none.safetensors")
    for left in finished.saved():
        left.unlink()
    assert resumed(finished).step == 0  # as after a kill before the first checkpoint


def test_damaged_settings(finished: RunDirectory) -> None:
    (finished.path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        finished.settings()


def test_a_write_that_fails_keeps_the_old_checkpoint(finished: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, path = resumed(finished), finished.last()
    assert path is not None
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot save .*: No space left on device; earlier checkpoints are whole"):
        finished.save(trainer)
    assert path.read_bytes() == before and not list(finished.checkpoints.glob("*.part"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        flags = ["--steps", "2000", "--save-every", "5", "--keep", "50", "--quiet"]
        process = command(disk / "run", *flags, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=120)
        directory = RunDirectory(disk / "run")
        assert process.returncode == 2 and "No space left on device" in said and len(said.splitlines()) <= 2
        assert directory.saved() and not list(directory.checkpoints.glob("*.part"))
        for path in directory.saved():
            load(path)
        for path in directory.saved()[:-1]:
            path.unlink()
        trainer = Trainer(*task_of(directory.settings()))
        directory.resume(trainer)
        assert trainer.step >= 5
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---------------------------------------------------------------------------- memory

MEMORY = """
import os
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.settings import preset, task_of
from tinygrad_attn.train.workers import Threads

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

settings = preset("copy", d_model=8, n_heads=1, n_layers=1, batch=4, steps=2000, dropout=0.1)
for report in Trainer(*task_of(settings), Threads(1)).steps():
    if report.step == 300:
        warm = resident()
print(resident() - warm)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_flat_over_2000_steps() -> None:
    grown = int(subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True).stdout)
    assert grown < 1_500_000
