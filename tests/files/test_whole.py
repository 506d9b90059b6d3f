"""Files stay whole, one process writes at a time, and what the user can put right is said in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tinygrad_attn.files.atomic import replacing, write_text
from tinygrad_attn.files.errors import Missing, UserError, as_user_error, needs
from tinygrad_attn.files.jsonl import keep_lines, whole_lines
from tinygrad_attn.files.lock import locked
from tinygrad_attn.files.stop import on_stop


def test_what_interrupts_a_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old\n")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write("half of the ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old\n" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with replacing(path, "wb") as file:
        file.write(b"new\n")
        assert path.read_text() == "old\n"
    assert path.read_text() == "new\n"


def test_lines_that_are_whole_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    keep_lines(path, lambda row: True)  # no file: nothing to do
    path.write_text('{"step": 1}\n{"step": 2}\n[3]\n{"step": 3')
    keep_lines(path, lambda row: row["step"] < 3)
    assert [row["step"] for _, row in whole_lines(path)] == [1, 2] and path.read_text().endswith("2}\n")


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with locked(tmp_path / "new" / "run", "run"):
        with pytest.raises(UserError, match="another run is writing here"), locked(tmp_path / "new" / "run", "run"):
            pass
        code = (
            f"from tinygrad_attn.files.lock import *\nwith locked(Path({str(tmp_path / 'new' / 'run')!r}), 'run'): pass"
        )
        assert b"UserError" in subprocess.run([sys.executable, "-c", code], capture_output=True).stderr
    with locked(tmp_path / "new" / "run", "run"):
        pass


def test_the_first_signal_is_told_and_the_next_acts_as_ever() -> None:
    stop = threading.Event()
    with pytest.raises(KeyboardInterrupt), on_stop(stop.set):
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(5)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_of_the_user() -> None:
    with pytest.raises(UserError, match=r"^expected 3$"), as_user_error(ValueError):
        raise ValueError("expected 3")
    with pytest.raises(UserError, match=r"^no such name$"), as_user_error(KeyError):
        raise KeyError("no such name")
    asking = as_user_error(OSError, doing="cannot ask", remedy="ask again")
    with pytest.raises(UserError, match=r"^cannot ask: OSError; ask again$"), asking:
        raise OSError
    with pytest.raises(ZeroDivisionError), as_user_error(ValueError, OSError):
        raise ZeroDivisionError
    with pytest.raises(BrokenPipeError), as_user_error(OSError):
        raise BrokenPipeError  # (whoever read our output has left: the command line knows what to do)


def test_a_missing_package_is_an_import_error_too() -> None:
    assert needs("json", "viz").loads("1") == 1
    with pytest.raises(ImportError, match=r"^a page needs nowhere: pip install 'tinygrad_attn\[play\]'$") as error:
        needs("nowhere.inside", "play", "a page")
    assert isinstance(error.value, Missing) and isinstance(error.value, UserError)
