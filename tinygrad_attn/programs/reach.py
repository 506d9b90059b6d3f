"""What a function can reach: the tensors, modules, optimisers and arrays that one run of it may read or edit.

For the time of the recording each array there is one that tells the tape; afterwards it is put back."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..autodiff.graph import Traced
from ..nn.module import Module
from .noted import Noted, plain, waiting

_ATOMS = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, np.generic, np.dtype)
_FOREIGN = ("numpy", "threading", "concurrent", "logging", "importlib", "weakref")
Put = Callable[[Any, Any, Any], None]
Place = tuple[Any, Any, Any, Put]  # holder, key, array, how it is set


def _set_item(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value


def _set_cell(holder: Any, key: Any, value: Any) -> None:
    holder.cell_contents = value


def _parts(x: Any) -> Iterator[tuple[Any, Any, Any, Put | None]]:
    """(holder, key, part, how to put another part there) for what `x` holds."""
    if isinstance(x, types.MethodType):
        yield x, "", x.__self__, None
        yield x, "", x.__func__, None
    elif isinstance(x, types.FunctionType):
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or ()):
            yield x, name, cell, None
        for default in (*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()):
            yield x, "", default, None
        for name in sorted(_names(x.__code__) & x.__globals__.keys()):
            yield x.__globals__, name, x.__globals__[name], _set_item
    elif isinstance(x, types.CellType):
        try:
            yield x, "", x.cell_contents, _set_cell
        except ValueError:  # not filled yet
            return
    elif isinstance(x, dict):
        yield from ((x, key, part, _set_item) for key, part in list(x.items()))
    elif isinstance(x, list):
        yield from ((x, i, part, _set_item) for i, part in enumerate(x))
    elif isinstance(x, (tuple, set, frozenset)):
        yield from ((x, i, part, None) for i, part in enumerate(x))
    elif not isinstance(x, _ATOMS) and not type(x).__module__.startswith(_FOREIGN):
        for name, part in list(getattr(x, "__dict__", {}).items()):
            yield x, name, part, object.__setattr__
        for kind in type(x).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(x, name) and name not in ("__weakref__", "__dict__"):
                    yield x, name, getattr(x, name), object.__setattr__


def _names(code: types.CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


@dataclass
class Reached:
    """places: where arrays are held; names: of the tensors and arrays that have one, by id; tensors: all of them."""

    places: list[Place] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    tensors: list[Traced] = field(default_factory=list)


def reach(*starts: Any) -> Reached:
    """Everything under `starts`."""
    waiting: list[tuple[str, Any]] = [("", start) for start in starts]
    seen: dict[int, Any] = {}
    found = Reached()
    while waiting:
        called, x = waiting.pop()
        if isinstance(x, _ATOMS) or id(x) in seen:
            continue
        seen[id(x)] = x
        if isinstance(x, Traced):
            found.tensors.append(x)
            found.names.setdefault(id(x), getattr(x, "name", None) or called)
        if isinstance(x, Module):
            for path, tensor in x.named_parameters():  # the longest path is that in the model
                found.names[id(tensor)] = max(path, found.names.get(id(tensor), ""), key=lambda name: name.count("."))
        for holder, key, part, put in _parts(x):
            name = key if isinstance(key, str) and key.isidentifier() else called
            name = f"{name}_{key}" if isinstance(x, (list, tuple)) and name else name
            if not isinstance(part, np.ndarray):
                waiting.append((name, part))
            elif put is not None:
                found.places.append((holder, key, part, put))
                if not isinstance(x, Traced):
                    found.names.setdefault(id(part), name)
    return found


def put_notes(found: Reached) -> None:
    """Replace each array by one that tells the tape; the same array by the same one."""
    made: dict[int, Noted] = {}
    for holder, key, array, put in found.places:
        if type(array) is np.ndarray and array.dtype != object:
            put(holder, key, made.setdefault(id(array), waiting(array)))


def put_back(*starts: Any) -> None:
    """Plain arrays again, wherever the function reaches."""
    for holder, key, array, put in reach(*starts).places:
        if isinstance(array, Noted):
            put(holder, key, plain(array))
