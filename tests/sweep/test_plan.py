"""A sweep file is checked before any work starts; what is finished is kept."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tinygrad_attn.cli.main import main
from tinygrad_attn.files.errors import UserError
from tinygrad_attn.sweep.kinds import KINDS, keys_of
from tinygrad_attn.sweep.plan import Plan, PlanError, plan, read
from tinygrad_attn.sweep.run import finished, work
from tinygrad_attn.sweep.store import Store, summary
from tinygrad_attn.train.settings import Settings

SMALL = {"run": "gradients", "seeds": 2, "fixed": {"rows": 64}, "grid": {"d_k": [4, 16], "scale": [True, False]}}


def test_the_grid_is_every_combination_with_neighbouring_seeds() -> None:
    found = plan(SMALL)
    assert found.axes == ["d_k", "scale", "seed"]
    settings = [tuple(cell.settings[name] for name in found.axes) for cell in found.cells]
    assert settings[:3] == [(4, True, 0), (4, True, 1), (4, False, 0)] and len(set(settings)) == 8
    assert all(cell.settings["rows"] == 64 for cell in found.cells)
    assert len({cell.id for cell in found.cells}) == 8


def test_an_id_stays_the_same_for_ever() -> None:
    assert plan(SMALL).cells[0].id == "3ea5dfaa02b549f0"  # else finished cells would be lost with a new version


def test_the_example() -> None:
    found = read(Path(__file__).parents[2] / "examples" / "sweep.toml")
    assert found.run == "successor" and len(found.cells) == 36


@pytest.mark.parametrize(
    "content, message",
    [
        ({"run": "gradients", "gird": {}}, "gird: unknown key; there are run, seeds, fixed, grid"),
        ({}, "run: expected one of successor, gradients, train, lab, got None"),
        ({"run": "tarin"}, "run: expected one of successor, gradients, train, lab, got 'tarin'"),
        ({"run": ["train"]}, "run: expected one of"),
        ({"run": "gradients"}, "the grid is empty"),
        ({"run": "gradients", "grid": {}}, "the grid is empty"),
        ({"run": "gradients", "grid": {"d_k": []}}, "grid.d_k: the list is empty"),
        ({"run": "gradients", "grid": {"d_k": 16}}, "grid.d_k: expected a list of values, got 16"),
        ({"run": "gradients", "grid": [1]}, "grid: expected a table [grid], got [1]"),
        ({"run": "gradients", "grid": {"dk": [16]}}, "grid.dk: unknown key; there are d_k, scale, rows, seed"),
        ({"run": "gradients", "grid": {"d_k": [16.5]}}, "grid.d_k: expected a whole number, got 16.5"),
        ({"run": "gradients", "grid": {"d_k": [True]}}, "grid.d_k: expected a whole number, got True"),
        ({"run": "gradients", "grid": {"scale": [1]}}, "grid.scale: expected true or false, got 1"),
        ({"run": "gradients", "grid": {"d_k": [4, 8, 4]}}, "grid.d_k: 4 is there twice"),
        ({"run": "gradients", "grid": {"d_k": [0]}}, "d_k: expected at least 1, got 0 (in the cell d_k = 0)"),
        ({"run": "gradients", "fixed": {"d_k": "16"}, "seeds": 1}, "fixed.d_k: expected a whole number, got '16'"),
        ({"run": "gradients", "fixed": {"d_k": 4}, "grid": {"d_k": [4]}}, "d_k: in fixed and in grid"),
        ({"run": "gradients", "seeds": 0}, "seeds: expected a number from 1 upward or a list, got 0"),
        ({"run": "gradients", "seeds": "3"}, "seeds: expected a number from 1 upward or a list, got '3'"),
        ({"run": "gradients", "seeds": [1, "2"]}, "grid.seed: expected a whole number, got '2'"),
        ({"run": "gradients", "seeds": 2, "grid": {"seed": [1]}}, "seeds: given beside seed"),
        ({"run": "gradients", "seeds": 10**9}, "the grid has 100,001 cells; at most 100,000"),
        ({"run": "lab", "seeds": 2, "fixed": {"experiment": "ties"}}, "seeds: a lab experiment has several of its own"),
        ({"run": "lab", "grid": {"experiment": ["tie"]}}, "experiment: expected one of variance"),
        ({"run": "train", "seeds": 2}, "task: run = 'train' needs one"),
        ({"run": "train", "seeds": 2, "fixed": {"task": "sort"}}, "task: expected one of agreement"),
        ({"run": "train", "fixed": {"task": "copy"}, "grid": {"lr": [1e-3, -1]}}, "(in the cell task = copy, lr = -1.0)"),
        ({"run": "train", "fixed": {"task": "copy", "lr": float("nan")}, "seeds": 1}, "fixed.lr: expected a number, got nan"),
        ({"run": "train", "fixed": {"task": "copy", "keep": 3}, "seeds": 1}, "fixed.keep: unknown key"),
        ({"run": "successor", "grid": {"tie": ["vk"]}}, "tie: expected one of none, qk, kv, qkv, got 'vk'"),
        ({"run": "successor", "fixed": {"tie": "kv"}, "grid": {"d_k": [8]}}, "needs d_v equal to d_k, got 16 and 8"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as error:
        plan(content)
    assert message in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.toml"
    wrong = {b"run = ": "not TOML", b"run = '\xff'": "not UTF-8 at byte 7", b"runs = 1": "runs: unknown key"}
    for content, message in wrong.items():
        path.write_bytes(content)
        assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert message in said and str(path) in said and len(said.splitlines()) == 1
    assert main(["sweep", str(tmp_path / "none.toml")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_whole_number_may_stand_for_a_float() -> None:
    one, same = (plan({"run": "successor", "seeds": 1, "fixed": {"lr": lr}}).cells[0] for lr in (3, 3.0))
    assert one.id == same.id


def test_every_setting_of_training_can_vary_but_those_of_the_folder() -> None:
    names = {field.name for field in dataclasses.fields(Settings)}
    assert names - set(keys_of("train")) == {"text_digest", "save_every", "keep"}
    for run in KINDS:
        assert set(keys_of(run).values()) <= {"int", "float", "str", "bool"}


# ---------------------------------------------------------------------------- one cell


@pytest.mark.parametrize(
    "run, settings, measures",
    [
        ("successor", {"d_k": 4, "d_v": 4, "steps": 2, "tie": "qkv", "heads": 2}, {"loss", "accuracy", "stuck"}),
        ("gradients", {"d_k": 4, "rows": 32, "scale": False}, {"dead_rows", "score_gradient_row_norm"}),
        ("train", {"task": "copy", "steps": 2, "batch": 2, "d_model": 8, "n_layers": 1}, {"loss", "held_out_loss"}),
        ("lab", {"experiment": "dictionary", "repeats": 1}, {"sentences", "hold"}),
    ],
)
def test_a_cell_measures_and_repeats(run: str, settings: dict[str, Any], measures: set[str]) -> None:
    first, again = work(run, settings), work(run, settings)
    assert first["results"] == again["results"] and measures <= set(first["results"])
    json.dumps(first)


def test_a_cell_that_fails_says_why() -> None:
    found = work("train", {"task": "copy", "n_heads": 5})
    assert "n_heads must divide d_model" in found["error"] and "results" not in found and "minigpt" in found["trace"]


# ---------------------------------------------------------------------------- the folder


@pytest.fixture
def swept(tmp_path: Path) -> tuple[Plan, Store]:
    """Eight cells, of which the last has failed."""
    store, found = Store(tmp_path / "out"), plan(SMALL)
    with store.locked():
        for i, cell in enumerate(found.cells[:-1]):
            store.keep(cell, {"results": {"x": float(i)}, "seconds": 1.0, "code": {}})
    return found, store


def test_results_and_summary(swept: tuple[Plan, Store]) -> None:
    found, store = swept
    outcomes = finished(found, store) | {found.cells[-1].id: {"error": "OSError: no, thanks", "seconds": 0.1}}
    with open(store.write_csv(found, outcomes), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 and rows[2] == {
        "d_k": "4",
        "scale": "False",
        "seed": "0",
        "x": "2.0",
        "seconds": "1.0",
        "error": "",
    }
    assert rows[-1]["error"] == "OSError: no, thanks" and rows[-1]["x"] == ""
    table = summary(found, outcomes)
    assert [row["x:"] for row in table.rows] == ["0.5 ± 0.71", "2.5 ± 0.71", "4.5 ± 0.71", "6"]
    assert [row["failed"] for row in table.rows] == [0, 0, 0, 1] and "failed" in str(table)


def test_a_damaged_cell_is_run_again(swept: tuple[Plan, Store]) -> None:
    found, store = swept
    paths = [store.cells / f"{cell.id}.json" for cell in found.cells[:3]]
    paths[0].write_text(paths[0].read_text()[:-20])
    paths[1].write_text("[]")
    paths[2].write_text(paths[2].read_text().replace('"d_k": 4', '"d_k": 5'))
    assert len(finished(found, store)) == 4


def test_two_sweeps_in_one_folder(
    swept: tuple[Plan, Store], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, store = swept
    with store.locked(), pytest.raises(UserError, match="another sweep is writing here"), Store(store.path).locked():
        pass
    (tmp_path / "file").write_text("")
    path = tmp_path / "a.toml"
    path.write_text('run = "gradients"\nseeds = 1\n')
    assert main(["sweep", str(path), "--out", str(tmp_path / "file" / "x")]) == 2
    assert "cannot write to" in capsys.readouterr().err


def test_a_finished_sweep_needs_no_cluster(
    swept: tuple[Plan, Store], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, store = swept
    store.keep(found.cells[-1], {"results": {"x": 7.0}, "seconds": 1.0, "code": {}})
    path = tmp_path / "a.toml"
    path.write_text('run = "gradients"\nseeds = 2\n[fixed]\nrows = 64\n[grid]\nd_k = [4, 16]\nscale = [true, false]\n')
    assert main(["sweep", str(path), "--out", str(store.path)]) == 0
    said = capsys.readouterr().out
    assert "8 cells of gradients, 8 finished before" in said and "dashboard" not in said and "6.5 ± 0.71" in said
    assert "by other code than is installed now" in said
