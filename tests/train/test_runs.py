"""A run is never lost: killed, stopped, begun twice.  (test_checkpoints.py: damaged files, a full disk.)"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from train.running import SMALL, command, equal, start, undisturbed, wait_for_step

from tinygrad_attn.cli.main import main
from tinygrad_attn.train.checkpoint import load
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import preset, task_of
from tinygrad_attn.train.workers import Threads


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
@pytest.mark.parametrize("stop_at", [1, 5, 9])
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
        # saved at each third step and where the held-out loss was best, before the step is shown
        assert trainer.step == {1: 0, 5: 4, 9: 9}[stop_at]
        train_in(directory, trainer)
    equal(tmp_path / "parts", tmp_path / "whole")


# ---------------------------------------------------------------------------- stopping


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
    flags = [
        "--out",
        folder,
        "--steps",
        "6",
        "--eval-every",
        "3",
        "--d-model",
        "8",
        "--n-heads",
        "2",
        "--n-layers",
        "1",
    ]
    assert main(["train", "agreement", *flags, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["steps"] == 6
    assert [row["step"] for row in RunDirectory(tmp_path / "run").measured()] == [1, 2, 3, 4, 5, 6]
    drawn = find_spec("matplotlib") is not None  # pictures come with the extra viz
    for name in ("summary.json", "sample.txt", *(("loss.png", "attention.png") if drawn else ())):
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
    assert "layer 0, head 1" in said and "\x1b" not in said and (tmp_path / "run" / "attend.png").exists() == drawn
    assert main(["attend", folder, "I jump"]) == 2
    assert "not in the vocabulary: 'jump'" in capsys.readouterr().err


def test_a_second_run_in_one_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunDirectory(tmp_path).locked():
        for flags in ([], ["--resume"]):
            assert main(["train", "copy", "--out", str(tmp_path), *flags]) == 2
            assert "another run is writing here" in capsys.readouterr().err
    with RunDirectory(tmp_path).locked():
        pass  # free again


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
