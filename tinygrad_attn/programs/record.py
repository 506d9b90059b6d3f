"""program(function, *examples): run a function once and note every array call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..attention import kernels
from ..attention.kernels.threads import fresh_scratch
from ..autodiff.blas import one_thread_blas
from ..autodiff.graph import Traced
from ..autodiff.mode import current, listening
from ..autodiff.tensor import Tensor
from .errors import ProgramError
from .listing import Program
from .noted import Noted, plain, replaced, tape, waiting
from .reach import Reached, put_back, put_notes, reach
from .tape import Tape, Value


def program(function: Callable[..., Any], *examples: Any) -> Program:
    """Run ``function(*examples)`` once and note what it computes, array call by array call: a loss and its backward,
    or a whole training step.  The run is a real one: it leaves gradients and edits parameters as ever.

    examples: arrays or Tensors, the inputs of the program; anything else is passed on as it is.  print(program) shows
    the lines, ``program.source()`` is a file that needs NumPy alone.

    Errors: ProgramError where something cannot be noted: a number that your code reads in mid-step, an array of
    objects, or a library that computes behind NumPy's back.

    >>> import numpy as np, tinygrad_attn as ta
    >>> w = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> def loss(x):
    ...     total = (w * x).sum()
    ...     total.backward()
    ...     return total
    >>> noted = ta.program(loss, np.ones(2, np.float32))
    >>> [line.phase for line in noted.lines][:2], noted.answers()[0]
    (['forward', 'forward'], 'result: 3.0')
    """
    if tape() is not None:
        raise ProgramError("a program is being recorded already: record one after the other")
    notes = Tape()
    named: dict[int, tuple[Value, str]] = {}
    found = reach(function, *examples)
    given = [waiting(x) if type(x) is np.ndarray else x for x in examples]
    returned: Any = None
    put_notes(found)
    _forget_tables()
    try:
        with fresh_scratch(), one_thread_blas(), listening(notes.heard), _names_heard(named), replaced(notes):
            returned = function(*given)
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ProgramError):
            cause = cause.__cause__
        raise cause or error from None  # an operation wraps what went wrong inside it
    finally:
        _forget_tables()
        put_back(function, examples, returned, found.tensors)
    _name_values(notes, found, function, examples, named)
    return Program(notes, _results(returned, notes, found), _inputs(notes, examples))


def _forget_tables() -> None:
    """The kernels keep small tables (the causal triangle): each program makes its own, and leaves none behind."""
    for name, module in list(sys.modules.items()):
        if name.startswith(kernels.__name__):
            for each in list(vars(module).values()):
                if hasattr(each, "cache_clear"):
                    each.cache_clear()


@contextmanager
def _names_heard(named: dict[int, tuple[Value, str]]) -> Iterator[None]:
    """What is ``named`` inside gets its name in the program."""
    real = Tensor.named

    def hear(self: Tensor, name: str) -> Tensor:
        data = self._data
        if tape() is not None and isinstance(data, Noted) and data.value is not None:
            named[id(data.value)] = (data.value, current().path(name))
        return real(self, name)

    Tensor.named = hear  # type: ignore[method-assign]
    try:
        yield
    finally:
        Tensor.named = real  # type: ignore[method-assign]


def _name_values(notes: Tape, found: Reached, function: Any, examples: Any, named: Any) -> None:
    by_array = {id(value.array): value for value in notes.outside.values()}
    for value, name in named.values():
        value.name = value.name or name
    for tensor in found.tensors:
        value = by_array.get(id(tensor._data))
        if value is not None and found.names.get(id(tensor)):
            value.name = found.names[id(tensor)]
    for holder, _, array, _ in found.places:  # a parameter's array before the step, where the step replaced it
        value = by_array.get(id(array))
        if value is not None and value.name is None:
            value.name = found.names.get(id(holder) if isinstance(holder, Traced) else id(array))
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    for i, example in enumerate(examples):
        array = example._data if isinstance(example, Traced) else example
        value = by_array.get(id(array))
        if value is not None:
            value.name = found.names[id(example)] = parameters[i] if i < len(parameters) else f"input_{i}"


def _inputs(notes: Tape, examples: Any) -> list[Value | None]:
    arrays = [x._data if isinstance(x, Traced) else x for x in examples]
    return [notes.outside.get(id(array)) for array in arrays]


def _results(returned: Any, notes: Tape, found: Reached) -> list[tuple[str, Value]]:
    """What the run left behind: what it returned, the gradients, and what it edited."""
    by_array = {id(v.array): v for line in notes.lines for v in line.makes} | {
        id(v.array): v for v in notes.outside.values()
    }
    looks = [line for line in notes.lines if line.form == "look"]
    while notes.lines and notes.lines[-1].form == "look":  # read after the last call: no guard
        notes.lines.pop()
    results: list[tuple[str, Value]] = []

    def keep(label: str, value: Value) -> None:
        if value not in [kept for _, kept in results]:
            more = sum(known.partition(" (")[0] == label for known, _ in results)
            results.append((f"{label} ({more + 1})" if more else label, value))

    def add(label: str, x: Any) -> None:
        if isinstance(x, (tuple, list)):
            for i, part in enumerate(x):
                add(f"{label}[{i}]", part)
        elif isinstance(x, dict):
            for key, part in x.items():
                add(f"{label}[{key!r}]", part)
        elif isinstance(x, (Traced, np.ndarray)):
            value = by_array.get(id(plain(x._data if isinstance(x, Traced) else x)))
            if value is not None:
                keep(label, value)
        elif isinstance(x, float) and looks and looks[-1].answer == x:
            keep(label, looks[-1].reads[0])

    add("result", returned)
    for tensor in found.tensors:
        grad = tensor._node.extras.grad if tensor._node is not None and tensor._node.extras is not None else None
        if grad is not None:
            add(f"gradient of {found.names.get(id(tensor)) or 'a leaf'}", grad)
    for buffer in notes.buffers.values():
        if buffer.array.tobytes("A") != buffer.before.tobytes("A"):
            for value in buffer.values:
                keep(f"{value.name or 'an array'} afterwards", value)
    return results
