"""How a program prints: by operation, as a learner reads it, or by array call."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from .tape import Line, Value
from .text import edits

if TYPE_CHECKING:
    from .listing import Program


def said(line: Line) -> str:
    """Who asked for the line: ``dL/dx of matmul, lesson.py:14``."""
    what = f"{line.rule or 'backward'} of {line.op}" if line.phase == "backward" and line.op != "backward" else line.op
    within = line.inside if line.inside not in ("", "call", "<lambda>", line.op, "_hand_on") else ""
    return ", ".join(part for part in (what, within.strip("_"), where(line)) if part)


def where(line: Line) -> str:
    """The user's line: ``lesson.py:14``."""
    return line.place.partition(": ")[0]


def shape(value: Value) -> str:
    return str(tuple(value.array.shape)).replace(",)", ")")


def by_call(program: Program) -> str:
    """Every array call: ``12  g12 (16, 8) = g11 @ v3.swapaxes(-1, -2)   # dL/dx of matmul, lesson.py:14``."""
    rows, phase = [], ""
    for line, text in zip(program.lines, program.texts):
        if line.phase != phase:
            phase = line.phase
            rows.append(f"{phase}:")
        if len(line.makes) == 1:
            name = program.name(line.makes[0])
            text = f"{name} {shape(line.makes[0])}{text.removeprefix(name)}"
        rows.append(f"{line.number:4}  {text}   # {said(line)}")
    return "\n".join([*rows, *totals(program)])


def by_operation(program: Program) -> str:
    """One line for each operation, forward and backward: what it made of what, in how many array calls."""
    groups = [list(lines) for _, lines in groupby(program.lines, key=lambda line: (line.phase, line.group))]
    last: dict[int, int] = {}  # the last group that reads a value
    for number, lines in enumerate(groups):
        for value in (value for line in lines for value in _read(line, program)):
            last[id(value)] = number
    last.update((id(value), len(groups)) for _, result in program.results for value in {result, result.owner})
    rows, phase = [], ""
    for number, lines in enumerate(groups):
        if lines[0].phase != phase:
            phase = lines[0].phase
            rows.append(f"{phase}:")
        rows.append(_operation(program, lines, number, last))
    return "\n".join([*rows, *totals(program)])


def _operation(program: Program, lines: list[Line], number: int, last: dict[int, int]) -> str:
    inside = {id(value) for line in lines for value in line.makes}
    made = [v for line in lines for v in line.makes if last.get(id(v), -1) > number]
    edited = [v for line in lines for v in edits(line) if id(v.owner) not in inside and id(v) not in inside]
    read = dict.fromkeys(v for line in lines for v in _read(line, program) if id(v) not in inside)
    head = ", ".join(f"{program.name(v)} {shape(v)}" for v in dict.fromkeys([*made, *edited]))
    first = next((line for line in lines if line.op), lines[0])
    rules = ", ".join(dict.fromkeys(line.rule for line in lines if line.rule))
    what = f"{rules or 'backward'} of {first.op}" if first.phase == "backward" and first.op != "backward" else first.op
    if not what:
        what = "look" if first.form == "look" else "numpy"
    count = len(lines)
    calls = f"{count} call{'s' * (count > 1)}"
    call = f"{what}({', '.join(program.name(v) for v in read)})"
    place = where(first) or where(lines[-1])
    return f"{lines[0].number:4}  {head + ' = ' if head else ''}{call}   # {calls}" + (f", {place}" if place else "")


def _read(line: Line, program: Program) -> list[Value]:
    """The values that a line names, also inside the views that stand in it."""
    found: list[Value] = []
    waiting = list(line.reads)
    while waiting:
        value = waiting.pop(0)
        if program.stands_inside(value) and value.line is not None:
            waiting += value.line.reads
        else:
            found.append(value)
    return found


def kept(program: Program) -> list[Value]:
    """The arrays that forward made and backward reads: what the graph holds between the two."""
    made = {id(v.owner): v.owner for line in program.lines if line.phase == "forward" for v in line.makes}
    read = [v.owner for line in program.lines if line.phase == "backward" for v in _read(line, program)]
    return list(dict.fromkeys(made[id(v)] for v in read if id(v) in made))


def totals(program: Program) -> list[str]:
    lines, rows = program.lines, [""]
    for phase in dict.fromkeys(line.phase for line in lines):
        these = [line for line in lines if line.phase == phase]
        flops, moved = sum(line.flops for line in these), sum(line.moved for line in these)
        rows.append(f"{phase:8} {len(these):5} calls  {flops:12,} operations  {moved:12,} bytes read and written")
    arrays = kept(program)
    names = ", ".join(program.name(v) for v in arrays[:12]) + ", ..." * (len(arrays) > 12)
    if arrays:
        size = sum(v.array.nbytes for v in arrays)
        rows.append(f"backward keeps {len(arrays)} arrays of forward, {size:,} bytes: {names}")
    return rows
