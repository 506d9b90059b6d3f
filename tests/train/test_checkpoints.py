"""Checkpoints that are truncated, damaged, foreign or missing, and disks that are full."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from train.running import SMALL, command, undisturbed

from tinygrad_attn.train.checkpoint import CheckpointError, load, save
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.rundir import RunDirectory, RunError
from tinygrad_attn.train.settings import preset, task_of


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
    with pytest.raises(
        CheckpointError, match=r"from a run with other settings: steps 300 \(here 6\), d_model 16 \(here 8\)"
    ):
        resumed(finished)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load(tmp_path / "none.safetensors")
    for left in finished.saved():
        left.unlink()
    metrics = finished.path / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:2]))
    assert resumed(finished).step == 0  # as after a kill before the first checkpoint, which was due at step 2


def test_checkpoints_that_are_gone_are_not_begun_again(finished: RunDirectory) -> None:
    for path in finished.checkpoints.iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="no checkpoint, though step 6 was reached; put them back"):
        resumed(finished)
    assert len(finished.measured()) == 6  # nothing is forgotten


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
    with pytest.raises(
        CheckpointError, match=r"cannot save .*: No space left on device; earlier checkpoints are whole"
    ):
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
