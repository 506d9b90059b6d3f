"""Tasks: rows are functions of their number, held-out rows are never trained on, texts are read as they are."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tinygrad_attn.tasks.letters import IGNORED, Copy, Induction, Reverse
from tinygrad_attn.tasks.text import Text
from tinygrad_attn.train.settings import TASKS, preset, task_of


@pytest.mark.parametrize("name", TASKS)
def test_a_row_depends_on_its_number_alone(name: str) -> None:
    _, task = task_of(preset(name, seed=5))
    whole = task.rows(100, 12)
    parts = [task.rows(100, 5), task.rows(105, 1), task.rows(106, 6)]
    for i in (0, 1):
        np.testing.assert_array_equal(whole[i], np.concatenate([part[i] for part in parts]))
    assert whole.tokens.shape == whole.targets.shape == (12, task.context)
    assert not np.array_equal(task.rows(112, 12).tokens, whole.tokens)
    assert not np.array_equal(task_of(preset(name, seed=6))[1].rows(100, 12).tokens, whole.tokens)


@pytest.mark.parametrize("name", ["copy", "reverse", "induction", "agreement"])
def test_no_held_out_row_is_ever_trained_on(name: str) -> None:
    _, task = task_of(preset(name))
    held_out = {row.tobytes() for row in task.held_out().tokens}
    assert not held_out & {row.tobytes() for row in task.rows(0, 20_000).tokens}


def test_the_checksum_splits_all_letters() -> None:
    copied = Copy(0)
    assert (copied.held_out().tokens[:, :8].sum(axis=1) % 16 == 0).all()
    assert (copied.rows(0, 5000).tokens[:, :8].sum(axis=1) % 16 != 0).all()
    tokens = Induction(0).rows(0, 5000).tokens
    assert ((tokens[:, 0] + tokens[:, 8]) % 8 != 0).all()
    assert (np.sort(tokens[:, 8:], axis=1) == np.arange(8)).all()


def test_answers() -> None:
    tokens, targets = Copy(0).rows(0, 50)
    assert (targets[:, :8] == IGNORED).all() and (targets[:, 8:] == tokens[:, :8]).all()
    tokens, targets = Reverse(0).rows(0, 50)
    assert (targets[:, 8:] == tokens[:, 7::-1]).all()
    tokens, targets = Induction(0).rows(0, 50)
    for row, answers in zip(tokens.tolist(), targets.tolist()):
        for place in range(8, 16):
            assert answers[place] == row[row.index(row[place]) + 1]


def test_encode_names_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"not in the vocabulary: 'z'.*it holds a b c"):
        Copy(0).encode("a z")
    assert Copy(0).decode(Copy(0).encode("a b =")) == "a b ="


# ---------------------------------------------------------------------------- text


def test_text_of_python_itself() -> None:
    task = Text(0, 64)
    tokens, targets = task.held_out()
    assert tokens.shape[1] == 64 and len(tokens) > 100
    assert task.decode(task.encode("def f(x):\n")) == "def f(x):\n"
    assert (tokens[:, 1:] == targets[:, :-1]).all()


def test_many_byte_characters(tmp_path: Path) -> None:
    text = "aé漢🙂" * 500 + "b"
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    task = Text(0, 10, path)
    assert set(task.vocabulary) == set(text)
    for row in task.rows(0, 200).tokens:
        assert task.decode(row) in text
    assert task.held_out().tokens.shape[1] == 10


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("é漢🙂x" * 40, encoding="utf-8")
    assert set(Text(0, 10, path).vocabulary) == set("é漢🙂x")
    broken = "é漢🙂x".encode() * 3 + b"\xff" + b"abc" * 40
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=f"not UTF-8: byte {broken.index(0xFF)} is 0xff"):
        Text(0, 10, path)
    path.write_bytes(b"abc" * 20 + "🙂".encode()[:2])
    with pytest.raises(ValueError, match="not UTF-8: byte 60 is 0xf0"):
        Text(0, 10, path)


@pytest.mark.parametrize("content", [b"", b"a", b"ab" * 10])
def test_a_text_shorter_than_a_context(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"{len(content)} characters are too few for a context of 64; expected at least 130"
    ):
        Text(0, 64, path)


def test_the_shortest_text(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"abcde" + b"vwxyz")
    task = Text(0, 4, path)
    assert task.decode(task.rows(0, 1).tokens[0]) == "abcd" and task.decode(task.held_out().tokens[0]) == "vwxy"


def test_the_memory_of_a_text(tmp_path: Path) -> None:
    size = 3_000_000
    path = tmp_path / "t.txt"
    path.write_bytes(b"0123456789" * (size // 10))
    tracemalloc.start()
    task = Text(0, 64, path)
    task.rows(0, 1000)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6.5 * size and after < 4.5 * size


def test_a_text_that_changed_is_not_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"0123456789" * 50)
    settings, _ = task_of(preset("text", text=str(path)))
    path.write_bytes(b"0123456780" * 50)
    with pytest.raises(ValueError, match="not the text that this run was trained on"):
        task_of(settings)
