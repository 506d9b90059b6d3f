"""A program as a file of its own: Python that imports NumPy alone."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..files.atomic import write_text

if TYPE_CHECKING:
    from .listing import Program

LARGE = 1 << 14  # bytes: larger arrays go beside the file that ``save`` writes


def answer(label: str, array: np.ndarray) -> str:
    """A result in one line: its one number, or its norm and a sum over its bytes that a changed bit changes."""
    if array.size == 1:
        return f"{label}: {array.item()!r}"
    data = np.frombuffer(array.tobytes(), np.uint8)
    bits = int(np.add.reduce(data * np.arange(1, data.size + 1, dtype=np.uint64)))
    return f"{label}: norm {np.sqrt(np.square(array, dtype=np.float64).sum()):.6g}, bits {bits:x}"


def text(program: Program, data: dict[str, np.ndarray], beside: str = "") -> str:
    """The file; arrays that are not in `data` come from the file `beside`."""
    lines = ['"""One step, as NumPy computed it."""', "", "import numpy as np", ""]
    if beside:
        lines += [f"stored = np.load(__file__[:-2] + {beside!r})"]
    lines += [""] + inspect.getsource(_array).replace("_array", "array", 1).splitlines() + ["", ""]
    lines += inspect.getsource(answer).splitlines() + ["", "", "# what was there before"]
    for name, array in program.data.items():
        stored = f"array({array.dtype.str!r}, {array.shape}, {array.tobytes().hex()!r})"
        lines.append(f"{name} = " + (stored if name in data else f"stored[{name!r}]"))
    lines += program.places
    phase = ""
    for line, call in zip(program.lines, program.texts):
        if line.phase != phase:
            phase = line.phase
            lines += ["", f"# {phase}"]
        lines.append(f"{call}  # {line.number}: {program.said(line)}".rstrip())
    lines += ["", "# what it gives"]
    lines += [f"print(answer({label!r}, np.asarray({program.name(value)})))" for label, value in program.results]
    return "\n".join(lines) + "\n"


def _array(dtype: str, shape: tuple[int, ...], data: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(data), dtype).reshape(shape).copy()


def save(program: Program, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    large = {name: array for name, array in program.data.items() if array.nbytes > LARGE}
    small = {name: array for name, array in program.data.items() if name not in large}
    if large:
        np.savez(folder / "program.npz", allow_pickle=False, **large)
    write_text(folder / "program.py", text(program, small, "npz" if large else ""))
    return folder / "program.py"
