"""What commands print where a terminal is narrow, knows few letters, or is none at all."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from tinygrad_attn.cli.main import main
from tinygrad_attn.cli.output import progress
from tinygrad_attn.show.matrix import matrix_text
from tinygrad_attn.show.table import Table


def test_a_terminal_without_letters_for_it_is_no_reason_to_stop(tmp_path: Path) -> None:
    flags = ["--steps", "1", "--d-model", "8", "--n-heads", "1", "--n-layers", "1", "--quiet"]
    assert main(["train", "copy", *flags, "--out", str(tmp_path)]) == 0
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for command in (["attend", str(tmp_path), "a b"], ["lab", "--lang", "es"]):
        done = subprocess.run([sys.executable, "-m", "tinygrad_attn", *command], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        assert b"a ##" in done.stdout or b"Qu? puede" in done.stdout


def test_maps_of_wide_letters_keep_their_columns() -> None:
    first, second = matrix_text(np.array([[1.0, 0.0], [0.0, 1.0]]), ["é", "😀"])
    assert first == " é ██" and second == "😀   ██"  # an emoji takes two cells


def test_the_bar_of_a_narrow_terminal_shows_step_loss_and_time_left() -> None:
    screen = Console(file=io.StringIO(), width=40, force_terminal=True, color_system=None)
    with progress(screen, "training", 2000) as update:
        update(1500, "loss 2.4966  0:01:23 left  17,000 tokens/s")
    last = screen.file.getvalue().rpartition("1500/2000")[2]  # type: ignore[attr-defined]
    assert "loss 2.4966  0:01:23 left" in last


def test_a_table_stays_under_the_bar_until_another_takes_its_place() -> None:
    screen = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with progress(screen, "training", 3) as update:
        update(1, "", Table("Heads at step 1", [], []))
        update(2, "")
        update(3, "", Table("Heads at step 3", [], []))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert shown.rstrip().rpartition("3/3")[2].count("Heads at step 3") == 1
