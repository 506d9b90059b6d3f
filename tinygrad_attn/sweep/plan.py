"""The plan of a sweep: a TOML file, read and checked before any work starts.

run = "successor"           # what a cell is: successor, gradients, train or lab (kinds.py)
seeds = 3                   # each cell with seed 0, 1, 2; or a list
[fixed]                     # the same in all cells
steps = 100
[grid]                      # every combination
d_k = [16, 64]
scale = [true, false]
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files.errors import UserError, as_user_error
from .kinds import KINDS, Kind, keys_of

MOST = 100_000  # cells


class PlanError(UserError):
    """A sweep file that cannot be used: where, what was expected, what came."""


@dataclass(frozen=True)
class Cell:
    """One run: settings as the file gives them.  id: of (run, settings), the same for ever."""

    run: str
    settings: dict[str, Any]

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps([self.run, self.settings], sort_keys=True).encode()).hexdigest()[:16]

    def made(self) -> Kind:
        """Errors: ValueError."""
        return KINDS[self.run](**self.settings)


@dataclass(frozen=True)
class Plan:
    """axes: the keys that vary, in the order of the file; ``seed`` last."""

    run: str
    axes: list[str]
    cells: list[Cell]


def read(path: Path) -> Plan:
    """Errors: UserError, in words of the file."""
    with as_user_error(OSError, doing=f"cannot read {path}"):
        content = path.read_bytes()
    try:
        return plan(tomllib.loads(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start}"
    except tomllib.TOMLDecodeError as error:
        reason = f"not TOML: {error}"
    except PlanError as error:
        reason = str(error)
    raise PlanError(f"{path}: {reason}")


def plan(content: dict[str, Any]) -> Plan:
    """The plan in a file's content.

    >>> [cell.settings for cell in plan({"run": "gradients", "grid": {"d_k": [16, 64]}}).cells]
    [{'d_k': 16}, {'d_k': 64}]
    """
    _known(content, ("run", "seeds", "fixed", "grid"), "")
    run = content.get("run")
    if not isinstance(run, str) or run not in KINDS:
        raise PlanError(f"run: expected one of {', '.join(KINDS)}, got {run!r}")
    fixed, axes = _table(content, "fixed"), _table(content, "grid")
    if "seeds" in content:
        _refuse("seed" in fixed or "seed" in axes, "seeds: given beside seed; take one of them")
        seeds = content["seeds"]
        if isinstance(seeds, bool) or not isinstance(seeds, int | list) or (isinstance(seeds, int) and seeds < 1):
            raise PlanError(f"seeds: expected a number from 1 upward or a list, got {seeds!r}")
        axes = {**axes, "seed": list(range(min(seeds, MOST + 1))) if isinstance(seeds, int) else seeds}
    keys = keys_of(run)
    of_lab = "seeds: a lab experiment has several of its own; say how many by repeats"
    _refuse(run == "lab" and "seed" in axes, of_lab)
    _known(fixed, keys, "fixed.")
    _known(axes, keys, "grid.")
    for name in axes:
        _refuse(name in fixed, f"{name}: in fixed and in grid; take one of them")
    _refuse(not axes, "the grid is empty: give [grid] at least one key with a list of values, or seeds")
    fixed = {name: _value(f"fixed.{name}", value, keys[name]) for name, value in fixed.items()}
    axes = {name: _values(f"grid.{name}", values, keys[name]) for name, values in axes.items()}
    if "seed" in axes:  # last: neighbours in the results differ in it alone
        axes["seed"] = axes.pop("seed")
    count = math.prod(map(len, axes.values()))
    _refuse(count > MOST, f"the grid has {count:,} cells; at most {MOST:,}")
    cells = [_cell(run, fixed | dict(zip(axes, values))) for values in itertools.product(*axes.values())]
    return Plan(run, list(axes), cells)


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise PlanError(message)


def _cell(run: str, settings: dict[str, Any]) -> Cell:
    cell = Cell(run, settings)
    try:
        cell.made()
    except ValueError as error:
        raise PlanError(f"{error} (in the cell {described(settings)})") from None
    return cell


def described(settings: dict[str, Any]) -> str:
    """
    >>> described({"d_k": 16, "tie": "qk"})
    'd_k = 16, tie = qk'
    """
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def _known(found: dict[str, Any], known: Collection[str], where: str) -> None:
    for name in found:
        _refuse(name not in known, f"{where}{name}: unknown key; there are {', '.join(known)}")


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name, {})
    _refuse(not isinstance(table, dict), f"{name}: expected a table [{name}], got {table!r}")
    return table


def _values(where: str, values: Any, kind: str) -> list[Any]:
    elsewhere = "one value for all cells belongs to [fixed]"
    _refuse(not isinstance(values, list), f"{where}: expected a list of values, got {values!r}; {elsewhere}")
    _refuse(not values, f"{where}: the list is empty, so there would be no cell")
    found = [_value(where, value, kind) for value in values]
    most, times = Counter(found).most_common(1)[0]
    _refuse(times > 1, f"{where}: {most!r} is there twice")
    return found


def _value(where: str, value: Any, kind: str) -> Any:
    """`value` as the type `kind`; a whole number may stand for a float, and nothing else for anything else."""
    if kind == "float" and type(value) is int:
        value = float(value)
    other = type(value).__name__ != kind or (kind == "float" and not math.isfinite(value))
    _refuse(other, f"{where}: expected {_WORDS[kind]}, got {value!r}")
    return value


_WORDS = {"int": "a whole number", "float": "a number", "str": "a text in quotes", "bool": "true or false"}
