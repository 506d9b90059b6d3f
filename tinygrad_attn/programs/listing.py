"""A program: the lines of one step, to read, to run and to keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from . import diff as difference
from . import html, reading, source
from .errors import ProgramError
from .tape import Buffer, Line, Tape, Value
from .text import edits, identifier, placed, text_of

RESERVED = ("np", "array", "answer", "stored", "print", "slice", "bool")  # words that the file itself uses


@dataclass
class Run:
    """What ``program.run`` found: `arrays` by the label of the result, and with trace=True the norm of each line."""

    arrays: dict[str, np.ndarray]
    norms: dict[int, float] = field(default_factory=dict)


class Program:
    """lines: the array calls in the order in which they ran (views that one call reads stand inside its line).
    results: (label, value) of what the step returned, of the gradients and of what it edited."""

    def __init__(self, tape: Tape, results: list[tuple[str, Value]], inputs: list[Value | None]) -> None:
        self.results, self.inputs = results, inputs
        self.expected = [(label, value.array.copy()) for label, value in results]
        self._names: dict[int, str] = {}
        self._taken = {*RESERVED, *(f"memory_{i}" for i in range(len(tape.buffers) + 1))}
        kept = {id(value) for _, value in results}
        self._inlined = {id(line.makes[0]) for line in tape.lines if _stands_inside(line, kept)}
        self._inlined -= {id(v) for line in tape.lines for v in edits(line)}
        self._inlined -= {id(v) for line in tape.lines if line.form == "look" for v in line.reads}
        self.lines = [line for line in tape.lines if not line.makes or id(line.makes[0]) not in self._inlined]
        for number, line in enumerate(self.lines, 1):
            line.number = number
        self.buffers = [buffer for buffer in tape.buffers.values() if any(v.used for v in buffer.values)]
        self.data, self.places = self._memory()
        self.texts = [self.text(line) for line in self.lines]
        self._check()
        for value in {v for line in tape.lines for v in (*line.reads, *line.makes)}:  # shapes stay, numbers go
            value.array = np.broadcast_to(np.empty((), value.array.dtype), value.array.shape)

    # ------------------------------------------------------------------------ names

    def name(self, value: Value) -> str:
        """What the value is called: its own name, or v, g, u (forward, backward, update) and its line."""
        if id(value) in self._inlined and value.line is not None:
            return text_of(value.line, self.name)
        if id(value) not in self._names:
            word = identifier(value.name) if value.name else self._numbered(value)
            free = (name for name in chain([word], (f"{word}_{i}" for i in count(2))) if name not in self._taken)
            self._names[id(value)] = name = next(free)
            self._taken.add(name)
        return self._names[id(value)]

    @staticmethod
    def _numbered(value: Value) -> str:
        line = value.line
        if line is None:
            return "constant"
        first = {"forward": "v", "backward": "g"}.get(line.phase, "u")
        return f"{first}{line.number}" + ("" if line.many is None else "abcdefgh"[line.makes.index(value) % 8])

    def stands_inside(self, value: Value) -> bool:
        """Is it a view that stands in the line which reads it?"""
        return id(value) in self._inlined

    def text(self, line: Line) -> str:
        """The line as Python."""
        call = text_of(line, self.name)
        if not line.makes:
            return call
        names = ", ".join(self.name(value) for value in line.makes)
        return f"{names}{',' * (line.many is not None and len(line.makes) == 1)} = {call}"

    def said(self, line: Line) -> str:
        """Who asked for the line: ``dL/dx of matmul, lesson.py:14``."""
        return reading.said(line)

    def __str__(self) -> str:
        return reading.by_operation(self)

    def calls(self) -> str:
        """Every array call, one a line; ``print(program)`` shows the operations."""
        return reading.by_call(self)

    def diff(self, other: Program, numbers: bool = False) -> str:
        """The lines that only this one (-) or only the other (+) has.  numbers=True also shows (=) the norms of both in
        the lines that they share, where they differ."""
        return difference.diff(self, other, numbers)

    def html(self) -> str:
        """One page, folded by module: a name under the pointer lights up where it is made and used."""
        return html.whole(self)

    def _repr_html_(self) -> str:
        return html.in_a_cell(self)

    # ------------------------------------------------------------------------ what was there before

    def _memory(self) -> tuple[dict[str, np.ndarray], list[str]]:
        """(the arrays that were there before, by name; lines that show several of them in one memory)."""
        data: dict[str, np.ndarray] = {}
        lines: list[str] = []
        for number, buffer in enumerate(self.buffers, 1):
            values, root = [v for v in buffer.values if v.used], buffer.array
            first = values[0].array
            edited = root.tobytes("A") != buffer.before.tobytes("A")
            if len(values) == 1 and (not edited or first.shape == root.shape) and first.dtype == root.dtype:
                array = _at(buffer, first)
                data[self.name(values[0])] = array if array.flags.c_contiguous else array.copy(order="K")
                if not data[self.name(values[0])].flags.c_contiguous:
                    array = data.pop(self.name(values[0]))
                    data[f"memory_{number}"] = memory = _flat(array)
                    lines.append(f"{self.name(values[0])} = {placed(array, memory, f'memory_{number}')}")
                continue
            data[f"memory_{number}"] = _flat(buffer.before)
            for value in values:
                lines.append(f"{self.name(value)} = {placed(value.array, root, f'memory_{number}')}")
        return data, lines

    # ------------------------------------------------------------------------ running

    @property
    def guards(self) -> list[str]:
        """The lines where the step looked at a value: ``run`` stops there when the answer is another one."""
        return [f"{line.number}: {text}" for line, text in zip(self.lines, self.texts) if line.form == "look"]

    def run(self, *arrays: Any, trace: bool = False) -> Run:
        """The lines on `arrays` in place of the examples (on the recorded ones where none are given), with the recorded
        parameters; nothing of yours is read or edited.  What was a number in the recorded run stays what it was:
        dropout's pattern, the learning rate, the step count.  trace=True: the norm of what each line made, too.

        Errors: ProgramError where a line that looks at a value now finds another answer, or the arrays do not fit."""
        space: dict[str, Any] = {"np": np, **{name: array.copy() for name, array in self.data.items()}}
        for place in self.places:
            exec(place, space)
        self._put_in(space, arrays)
        norms: dict[int, float] = {}
        for line, text in zip(self.lines, self.texts):
            try:
                exec(text, space)
            except AssertionError:
                raise ProgramError(f"line {line.number}, {text}: another answer than in the recorded run; what follows "
                                   f"would not be what the function does.  Record it anew") from None  # fmt: skip
            made = [space[self.name(v)] for v in (line.makes or edits(line)) if id(v) not in self._inlined]
            for value, array in zip(line.makes, made):
                if np.shape(array) != value.array.shape:
                    raise ProgramError(
                        f"line {line.number}, {text}: another shape, {np.shape(array)}, than in the recorded run, "
                        f"{value.array.shape}; record it anew"
                    )
            if trace and made and made[0].dtype.kind == "f":
                norms[line.number] = float(np.sqrt(np.square(made[0], dtype=np.float64).sum()))
        return Run({label: np.asarray(eval(self.name(value), space)) for label, value in self.results}, norms)

    def _put_in(self, space: dict[str, Any], arrays: tuple[Any, ...]) -> None:
        if arrays and len(arrays) != len(self.inputs):
            raise ProgramError(f"expected {len(self.inputs)} arrays, got {len(arrays)}")
        for array, value in zip(arrays, self.inputs):
            if value is None or not value.used:
                continue
            array = np.asarray(getattr(array, "_data", array))
            if array.shape != value.array.shape or array.dtype != value.array.dtype:
                was = value.array
                raise ProgramError(
                    f"{self.name(value)}: expected {was.dtype} {was.shape}, got {array.dtype} {array.shape}"
                )
            space[self.name(value)][...] = array

    def _check(self) -> None:
        """The lines are run once: they must give, bit for bit, what the recorded run gave."""
        found = self.run().arrays
        for label, array in self.expected:
            if found[label].tobytes() != array.tobytes():
                raise ProgramError(
                    f"the noted calls give another {label} than the run: something was computed past NumPy's functions "
                    f"(a foreign library, an array that the function hides from us)"
                )

    def answers(self) -> list[str]:
        """What ``source()`` prints when it runs: the result and the norms, with a sum over the bits."""
        return [source.answer(label, array) for label, array in self.expected]

    def source(self) -> str:
        """The text of a Python file that imports NumPy alone, with the recorded inputs and parameters in it.  It prints
        the result and the gradient norms, bit for bit those of the recorded run."""
        return source.text(self, self.data)

    def save(self, folder: str | Path) -> Path:
        """``program.py`` in `folder`, with ``program.npz`` beside it for large arrays; gives the path of the first."""
        return source.save(self, Path(folder))


def _stands_inside(line: Line, kept: set[int]) -> bool:
    """Is it a view that one call reads, so that it can stand in that call's line?"""
    return (
        line.view
        and line.many is None
        and line.form in ("method", "get", "attribute")
        and len(line.reads) == 1
        and line.makes[0].used == 1
        and id(line.makes[0]) not in kept
    )


def _at(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    """`array`, a view of the buffer, as it was before."""
    offset = array.__array_interface__["data"][0] - buffer.array.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, _flat(buffer.before), offset, array.strides)


def _flat(array: np.ndarray) -> np.ndarray:
    """The memory of an array without gaps, as one axis."""
    return np.lib.stride_tricks.as_strided(array, (array.size,), (array.itemsize,))
