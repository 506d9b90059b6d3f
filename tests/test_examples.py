"""Every example runs alone, in an empty folder, in seconds, and its own assertions hold."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[0-9][0-9]_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs_alone(path, tmp_path):
    started = time.perf_counter()
    done = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert len(done.stdout.splitlines()) >= 5
    assert not list(tmp_path.iterdir())  # an example prints; it leaves nothing behind
    assert time.perf_counter() - started < 60  # seconds each; the bound allows for a busy machine


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_is_short_and_says_what_it_teaches(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 110
    assert "assert" in text


def test_they_are_numbered_without_gaps():
    assert [int(re.match(r"\d+", path.name)[0]) for path in EXAMPLES] == list(range(len(EXAMPLES)))
