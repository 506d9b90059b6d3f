"""inspect, step and doctor on a run: what they print, the files they write, and what they say when they cannot."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tinygrad_attn.cli.main import main
from tinygrad_attn.cli.shared_arguments import batch_of
from tinygrad_attn.tasks.letters import IGNORED


def run(*arguments):
    command = [sys.executable, "-m", "tinygrad_attn", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "copy"
    done = run("train", "copy", "--steps", 3, "--n-layers", 1, "--d-model", 32, "--quiet", "--out", path)
    assert done.returncode == 0, done.stderr
    return path


def test_inspect(folder, tmp_path):
    done = run("inspect", folder, "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    for part in ("Gradients, worst first", "blocks.0.attn.scores", "Saturation", "W_Q W_K^T"):
        assert part in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "Written" not in line) <= 80
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "http" not in page


def test_inspect_a_sentence_and_a_wrong_name(folder, capsys):
    assert main(["inspect", str(folder), "--sentence", "a b c = a b c"]) == 0
    assert main(["inspect", str(folder), "--names", "*.scorse"]) == 2
    assert "near names: blocks.0.attn.scores" in capsys.readouterr().err
    assert main(["inspect", str(folder), "--sentence", "a"]) == 2
    assert main(["inspect", str(folder / "nowhere")]) == 2


def test_step_writes_a_page_when_nobody_is_at_the_keys(folder, tmp_path):
    done = run("step", folder, "--out", tmp_path / "step.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "step.html").read_text()
    assert "blocks.0.attn.W_Q" in text and text.count("<script>") == 1
    assert run("step", folder).returncode == 0 and (folder / "step.html").exists()
    assert run("step", folder, "--out", tmp_path / "no" / "folder.html").returncode == 2


def test_step_checks_its_gradients(folder, capsys):
    assert main(["step", str(folder), "--check"]) == 0
    said = capsys.readouterr().out
    assert "Gradients against central differences" in said and "blocks.0.attn.W_Q" in said


def test_doctor_has_nothing_to_say(folder):
    done = run("doctor", folder)
    assert done.returncode == 0 and done.stdout.startswith("No finding.")


def test_the_batch():
    class Letters:
        context = 4
        encode = staticmethod(lambda text: np.array([int(c) for c in text]))

    tokens, targets = batch_of(Letters(), "123", 1)
    assert tokens.tolist() == [[1, 2]] and targets.tolist() == [[2, 3]]
    assert IGNORED not in targets
    with pytest.raises(ValueError, match="2 to 5 tokens"):
        batch_of(Letters(), "123456", 1)
    with pytest.raises(ValueError, match="--rows: expected at least 1, got 0"):
        batch_of(Letters(), None, 0)


def test_train_with_meters(tmp_path):
    from tinygrad_attn.probe import read_history

    common = ("--n-layers", 1, "--d-model", 32, "--workers", 2)
    done = run("train", "copy", "--steps", 4, "--meters", 2, "--out", tmp_path / "metered", *common)
    assert done.returncode == 0, done.stderr
    assert "Saturation" in done.stdout and "blocks.0.attn.weights" in done.stdout
    rows = read_history(tmp_path / "metered" / "meters.jsonl")
    assert [(row["step"], row["head"]) for row in rows] == [(step, head) for step in (0, 2) for head in range(4)]
    assert run("train", "copy", "--steps", 4, "--quiet", "--out", tmp_path / "plain", *common).returncode == 0
    files = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("metered", "plain")]
    losses = [[json.loads(line)["loss"] for line in lines] for lines in files]
    assert losses[0] == losses[1]  # looking changes no bit
    assert run("train", "copy", "--meters", 0, "--out", tmp_path / "none").returncode == 2


def test_program_prints_and_writes_a_file_that_runs_alone(folder, tmp_path, capsys):
    assert main(["program", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "dL/dq, dL/dk, dL/dv of fused_attention(" in said and "blocks_0_attn_W_Q" in said
    assert main(["program", str(folder), "--save", str(tmp_path), "--html", str(tmp_path / "program.html")]) == 0
    assert "blocks_0_attn_W_Q" in (tmp_path / "program.html").read_text()
    done = subprocess.run([sys.executable, "-I", tmp_path / "program.py"], capture_output=True, text=True, check=True)
    assert "gradient of blocks.0.attn.W_Q: norm" in done.stdout
