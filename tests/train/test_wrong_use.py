"""What a person gets wrong: one line that says what to do, and nothing left behind or overwritten."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from train.running import SMALL, equal, undisturbed

from tinygrad_attn.cli.main import main
from tinygrad_attn.train import checkpoint, rundir
from tinygrad_attn.train.checkpoint import CheckpointError
from tinygrad_attn.train.loop import NotFinite, Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import Settings, preset, task_of


@pytest.mark.parametrize(
    "flags, message",
    [
        (["copy", "--resume"], "no run in"),
        (["copy", "--batch", "0"], "batch: expected at least 1, got 0"),
        (["copy", "--workers", "0"], "--workers: expected at least 1, got 0"),
        (["copy", "--meters", "0"], "--meters: expected at least 1, got 0"),
        (["copy", "--n-layers", "0"], "n_layers: expected at least 1, got 0"),
        (["copy", "--warmup", "-5"], "warmup: expected at least 0, got -5"),
        (["copy", "--weight-decay", "-1"], "weight_decay: expected at least 0, got -1"),
        (["copy", "--lr", "inf"], "expected a positive, finite lr"),
        (["copy", "--context", "12"], "context: rows of copy have 16 tokens, got 12"),
        (["copy", "--text", "a.txt"], "only the task `text` reads a file"),
        (["text", "--text", "/does/not/exist"], "cannot read the text /does/not/exist: No such file"),
        (["text", "--text", "/"], "cannot read the text /: Is a directory"),
        (["copy", "--device", "tpu"], "unknown device 'tpu'"),
        (["copy", "--workers", "65"], "65 workers cannot share 64 rows"),
        (["copy", "--n-heads", "5"], "n_heads must divide d_model"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["train", *flags, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    assert main(["train", "copy", "--batch", "0", "--out", str(tmp_path)]) == 2
    assert tmp_path.exists()


# ---------------------------------------------------------------------------- folders of another kind


def finished(tmp_path: Path) -> RunDirectory:
    undisturbed(tmp_path / "run", preset("copy", **SMALL, steps=6, save_every=2, eval_every=3))
    return RunDirectory(tmp_path / "run")


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"settings": {"task": "copy", "heads": 3}, "versions": {"tinygrad_attn": "0.0.1"}}',
         "unknown settings: heads; written by tinygrad_attn 0.0.1: use that version, or train again"),
        ('{"settings": ', "is damaged"),
        ("[]", "is damaged"),
        ('{"workers": 2}', "is damaged: no 'settings'; put a copy of it back, or train again"),
    ],
)  # fmt: skip
def test_a_run_json_of_another_version_or_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    directory = finished(tmp_path)
    (directory.path / "run.json").write_text(content)
    for command in (["train", "copy", "--resume", "--out"], ["sample"], ["doctor"]):
        assert main([*command, str(directory.path)]) == 2
        said = capsys.readouterr().err
        assert message in said and len(said.splitlines()) == 1
    assert (directory.path / "run.json").read_text() == content


def test_a_file_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["sample", str(tmp_path / "file")]) == 2
    assert "no run in" in capsys.readouterr().err


def test_damaged_lines_of_metrics_stop_nothing(tmp_path: Path) -> None:
    directory = finished(tmp_path)
    path = directory.path / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "garbage}", *lines[3:]]) + "\n")
    trainer = Trainer(*task_of(directory.settings()))
    directory.resume(trainer)
    assert trainer.step == 6 and [row["step"] for row in directory.measured()] == [1, 2, 4, 5, 6]


def test_a_damaged_best_checkpoint_names_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = finished(tmp_path)
    best = directory.checkpoints / "best.safetensors"
    best.write_bytes(best.read_bytes()[:5000])
    assert main(["sample", str(directory.path)]) == 2
    assert "truncated" in (said := capsys.readouterr().err) and "--last takes the last checkpoint" in said
    assert main(["sample", str(directory.path), "--last"]) == 0


def test_a_checkpoint_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = finished(tmp_path)
    trainer = Trainer(*task_of(directory.settings()))
    directory.resume(trainer)
    with monkeypatch.context() as newer:
        newer.setattr(checkpoint, "FORMAT", 2)
        directory.save(trainer)
    with pytest.raises(
        CheckpointError, match="its format is 2, this version of tinygrad_attn reads 1: use the version that"
    ):
        directory.resume(trainer)
    with monkeypatch.context() as newer:
        newer.setattr(Settings, "to_dict", lambda self: {**asdict(self), "rotary": True})
        directory.save(trainer)
    with pytest.raises(CheckpointError, match="from another version of tinygrad_attn: unknown settings: rotary"):
        directory.resume(trainer)


def test_a_finished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = finished(tmp_path)
    assert main(["train", "copy", "--resume", "--out", str(directory.path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("all 6 steps are done") and f"Written to {directory.path}" in said  # a pipe has no width


# ---------------------------------------------------------------------------- the best checkpoint


def test_a_kill_between_the_best_checkpoint_and_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two was written, the resumed run has the best checkpoint of the undisturbed one."""
    settings = preset("copy", **SMALL, steps=6, save_every=2, eval_every=3)
    undisturbed(tmp_path / "whole", settings)
    directory, written, save = RunDirectory(tmp_path / "killed"), [], rundir.save

    class Killed(Exception):
        pass

    def save_once(trainer: Trainer, path: Path) -> None:
        if trainer.step == 3 and written:
            raise Killed
        save(trainer, path)
        written.extend([path] if trainer.step == 3 else [])

    with directory.locked():
        trainer = Trainer(*task_of(settings))
        directory.begin(trainer.settings)
        monkeypatch.setattr(rundir, "save", save_once)
        with pytest.raises(Killed):
            train_in(directory, trainer)
    monkeypatch.undo()
    with directory.locked():
        trainer = Trainer(*task_of(settings))
        directory.resume(trainer)
        train_in(directory, trainer)
    equal(tmp_path / "killed", tmp_path / "whole")
    best = [RunDirectory(tmp_path / name).best() for name in ("killed", "whole")]
    assert best[0] and best[1] and best[0].name == "best.safetensors" and best[0].read_bytes() == best[1].read_bytes()


# ---------------------------------------------------------------------------- numbers that overflow


@pytest.mark.filterwarnings("error")
def test_a_run_that_diverges_says_only_where(tmp_path: Path) -> None:
    small: dict[str, Any] = {**SMALL, "warmup": 0, "lr": 1e30}
    with pytest.raises(NotFinite, match="step 2"):
        undisturbed(tmp_path / "run", preset("copy", **small, steps=9))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["lr"] == 1e30


def test_heads_that_die_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--steps 3 --lr 30 --warmup 0 --clip 1e9 --d-model 16 --n-heads 2 --n-layers 1 --meters 1"
    assert main(["train", "copy", *flags.split(), "--out", str(tmp_path / "run")]) == 0
    assert "head 0 has died: the softmax of" in capsys.readouterr().out
