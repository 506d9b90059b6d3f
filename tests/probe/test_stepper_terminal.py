"""The stepper's keys in a real (pseudo-)terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from select import select

import pytest

SCRIPT = """
import tinygrad_attn as ta
x = ta.Tensor([1.0, 2.0], requires_grad=True)
ta.probe.stepper((x * x).sum(), {"x": x}).run()
"""


def typed(*keys: bytes, cwd: str | None = None) -> str:
    """What a terminal shows when these keys are typed, each `keys` at once, a moment apart; then q."""
    ours, theirs = os.openpty()
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd)
    os.close(theirs)
    said = b""

    def listen() -> None:
        nonlocal said
        with suppress(OSError):  # the other side has ended
            said += os.read(ours, 1 << 16) if select([ours], [], [], 0.2)[0] else b""

    while b"step 1 of 3" not in said and process.poll() is None:
        listen()
    for key in keys:
        os.write(ours, key)
        time.sleep(0.2)
    os.write(ours, b"q")
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        listen()
        if b"Traceback" in said:
            break
    process.kill()
    assert process.wait() == 0, said.decode()
    listen()
    os.close(ours)
    return said.decode()


pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")


def test_keys_typed_ahead_are_not_lost() -> None:
    said = typed(b"nnp")
    assert [said.count(f"step {n} of 3") for n in (1, 2, 3)] == [1, 2, 1]


def test_arrows_and_escape_alone() -> None:
    said = typed(b"\x1b[C", b"\x1b", b"\x1b[D")
    assert [said.count(f"step {n} of 3") for n in (1, 2, 3)] == [2, 2, 0]
    assert "/text: find" in said.split("step 2 of 3")[1]  # Esc: what the keys are


def test_a_number_a_text_and_a_slip() -> None:
    said = typed(b"30\x7f\n", b"/mul\n", b"/nothing\n")
    assert [said.count(f"step {n} of 3") for n in (1, 2, 3)] == [1, 2, 1]
    assert "no step has 'nothing'" in said


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a folder nobody can write to")
def test_a_page_that_cannot_be_written_ends_nothing() -> None:
    assert "cannot write step.html here" in typed(b"h", cwd="/proc")
