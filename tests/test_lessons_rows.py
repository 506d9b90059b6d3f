"""Every demand of the two source lessons (lesson_rows.py) is shown somewhere: a row without a place, or with one that does
not exist, fails."""

import inspect
from pathlib import Path

import pytest
from lesson_rows import ROWS

from tinygrad_attn.cli.main import COMMANDS
from tinygrad_attn.lab.catalogue import EXPERIMENTS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.part}: {row.demand[:50]}")
def test_row_is_shown_where_it_says(row):
    assert row.places
    for place in row.places:
        assert exists(place), f"{place} does not exist"


def exists(place):
    kind, _, name = place.partition(":")
    if kind == "lab":
        return name in EXPERIMENTS and callable(EXPERIMENTS[name])
    if kind == "command":
        return name in COMMANDS and (ROOT / "tinygrad_attn" / "cli" / f"{name}.py").exists()
    path, _, test = place.partition("::")
    path, _, text = path.partition("#")
    file = ROOT / path
    if not file.exists():
        return False
    source = file.read_text(encoding="utf-8") if file.is_file() else ""
    return (f"def {test}(" in source) if test else (text in source)


def test_every_row_is_named():
    counts = {part: sum(row.part == part for row in ROWS) for part in "ABC"}
    assert counts == {"A": 16, "B": 14, "C": 6}
    assert len({row.demand for row in ROWS}) == len(ROWS)


def test_a_missing_place_is_noticed():
    for place in ("lab:nothing", "command:nothing", "nowhere.py", "tests/test_lessons_rows.py#" + "x" * 9 + "y",
                  "tests/test_lessons_rows.py::test_" + "nothing"):  # fmt: skip
        assert not exists(place)


def test_every_experiment_answers_a_row():
    named = {place.removeprefix("lab:") for row in ROWS for place in row.places if place.startswith("lab:")}
    assert set(EXPERIMENTS) - named <= {"heads"}  # heads goes further than the rows
    for one in EXPERIMENTS.values():
        assert inspect.getdoc(one)
