"""The command line, as a newcomer meets it: each run is its own process, its output a pipe."""

import csv
import json
import os
import subprocess
import sys
from functools import partial

import pytest

from tinygrad_attn.cli import demo as commands_demo
from tinygrad_attn.cli.main import main
from tinygrad_attn.lab.reading import reading
from tinygrad_attn.lab.vanishing import vanishing


def run(*arguments, cwd=None, **environment):
    command = [sys.executable, "-m", "tinygrad_attn", *map(str, arguments)]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=180)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One run with the pictures left out; what it printed, and its folder."""
    home = tmp_path_factory.mktemp("demo")
    block = home / "no_plots" / "matplotlib"
    block.mkdir(parents=True)
    (block / "__init__.py").write_text("raise ImportError('not here')\n")
    done = run("demo", "--seed", 1, "--out", home / "out [1]", PYTHONPATH=str(block.parent), COLUMNS="60")
    assert done.returncode == 0, done.stderr
    return done.stdout, home / "out [1]"


def test_output_in_a_pipe_is_plain_and_keeps_to_the_width(demo):
    printed, _ = demo
    assert "\x1b" not in printed and "\r" not in printed
    tables = [line for line in printed.splitlines() if "/" not in line]  # a path may be longer
    assert max(map(len, tables)) <= 60


def test_it_says_what_was_learned_and_what_vanished(demo):
    printed, _ = demo
    for text in ("out [1]", "100% of 1,024", "position 6", "masked", "dL/dS", "1/sqrt(d_k)", "summary.json"):
        lines = " ".join(printed.split()), printed.replace("\n", "")  # a long path is broken at the width
        assert any(text in line for line in lines)


def test_without_matplotlib_one_line_says_how_to_get_the_pictures(demo):
    printed, out = demo
    assert "No picture: it needs matplotlib" in printed and "pip install 'tinygrad_attn[viz]'" in " ".join(
        printed.split()
    )
    assert sorted(path.name for path in out.iterdir()) == ["row7.csv", "summary.json", "trace.csv", "vanishing.csv"]


def test_summary_and_csv_hold_what_was_measured(demo):
    _, out = demo
    summary = json.loads((out / "summary.json").read_text())
    assert summary["seed"] == 1 and summary["accuracy"] == 1.0 and summary["position_6_largest"] >= 0.95
    assert summary["answer"] == "-s"
    heads, mean = summary["row7"]["heads"], summary["row7"]["mean"]
    assert len(heads) == 4 and all(sum(row) == pytest.approx(1, abs=1e-5) for row in [*heads, mean])
    assert max(range(8), key=mean.__getitem__) == 6
    assert [row["d_k"] for row in summary["vanishing"]] == [16, 16, 64, 64, 256, 256, 1024, 1024]
    assert set(summary["versions"]) >= {"tinygrad_attn", "numpy", "python"}
    rows = {name: list(csv.DictReader((out / f"{name}.csv").open())) for name in ("row7", "trace", "vanishing")}
    assert [len(rows[name]) for name in rows] == [5, 9, 8]
    assert [row["step"] for row in rows["trace"]] == [
        "q",
        "k",
        "v",
        "scores",
        "scaled",
        "masked",
        "weights",
        "mix",
        "out",
    ]
    assert float(rows["vanishing"][7]["dead_rows"]) == summary["vanishing"][7]["dead_rows"]


def test_quiet_writes_the_files_and_the_pictures_and_prints_nothing(tmp_path, capfd, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(commands_demo, "vanishing", partial(vanishing, [16, 64], rows=320, draws=2))
    monkeypatch.setattr(commands_demo, "reading", partial(reading, steps=2))
    assert main(["demo", "--quiet", "--out", str(tmp_path / "a" / "b")]) == 0
    assert capfd.readouterr() == ("", "")
    made = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert made == {"attention.png", "gradient_flow.png", "summary.json", "row7.csv", "trace.csv", "vanishing.csv"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["dmeo"], "invalid choice: 'dmeo'"),
        ([], "COMMAND"),
        (["demo", "--seed", "-1"], "from 0 upward"),
        (["demo", "--seed", "x"], "from 0 upward"),
    ],
)
def test_wrong_use_is_answered_in_words(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run("demo", "--out", tmp_path / "file")
    assert done.returncode == 2 and "cannot write to" in done.stderr and "--out" in done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr


def test_help_and_version_answer_without_loading_a_command():
    code = (
        "import sys; from tinygrad_attn.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('rich', 'matplotlib', 'tinygrad_attn.cli.demo') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "demo" in done.stdout and done.stdout.strip().endswith("[]")
    assert run("--version").stdout.startswith("tinygrad_attn ")
