"""A stand-in for a GPU: arrays that behave like CuPy's where code written against NumPy goes wrong.

A StrictArray holds a NumPy array and is none.  Like CuPy's array it
  - refuses to become a NumPy array silently (``np.asarray(x)`` raises), and stricter than CuPy, which
    lets ``np.exp(x)`` pass, it refuses NumPy's functions altogether;
  - gives 0-d arrays, not scalars, from reductions, indexing and 0-d arithmetic;
  - refuses NumPy arrays as operands, values and indices (and lists, which only some versions take);
  - has only the functions, methods and keywords that CuPy has (cupy_api.json);
  - has no ``__array_namespace__`` (CuPy 14 has none).
Everything that would wait for the GPU (``.get()``, ``float()``, ``if array``, picking by a boolean mask) is
noted in COPIES with the line that did it, so that a test can say: nothing here synchronises.

    register()                       # ta.Tensor([1.0], device="strict")
    with counting() as waits:
        step()
    assert waits == []
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from cupy_api import UFUNC, recorded

API = recorded()
COPIES: list[str] = []  # "file:line what" of each wait since the start


@contextmanager
def counting() -> Iterator[list[str]]:
    """The waits for the device that happen inside the ``with`` block."""
    before, found = len(COPIES), []
    try:
        yield found
    finally:
        found.extend(COPIES[before:])


def _waits(what: str) -> None:
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    COPIES.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {what}")


# ---------------------------------------------------------------------------- across the border


def lower(value: Any) -> Any:
    """What NumPy computes with in place of `value`; NumPy arrays from outside are refused."""
    if isinstance(value, StrictArray):
        return value._array
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")  # CuPy's words
    if type(value) in (list, tuple):
        return type(value)([lower(v) for v in value])
    if type(value) is dict:
        return {k: lower(v) for k, v in value.items()}
    return value


def lift(value: Any) -> Any:
    """NumPy's result as the device's: no scalars, only arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        made = object.__new__(StrictArray)
        made._array = np.asarray(value)
        return made
    return type(value)([lift(v) for v in value]) if type(value) in (list, tuple) else value


def _checked(name: str, allowed: list[str] | None, kwargs: dict[str, Any]) -> None:
    for keyword in kwargs:
        if allowed is not None and keyword not in allowed:
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}: CuPy's has none")


# ---------------------------------------------------------------------------- the array


class StrictArray:
    """An array on the device "strict"."""

    __slots__ = ("_array",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    _array: np.ndarray
    device = "strict"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Called for ``array + x`` and ``np.float32(2) * x`` (allowed when no array of NumPy is in it)."""
        if any(isinstance(x, np.ndarray) for x in inputs):
            raise TypeError(f"Unsupported type {np.ndarray}")
        if not all(isinstance(x, (StrictArray, np.generic)) for x in inputs):
            return NotImplemented  # a Tensor knows what to do
        if any(isinstance(x, np.generic) for x in inputs) and not kwargs:
            return getattr(module, ufunc.__name__)(*inputs)
        raise TypeError(f"np.{ufunc.__name__} was called on an array of the device: the array's module has it")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(f"np.{function.__name__} was called on an array of the device: the array's module has it")

    def get(self) -> np.ndarray:
        _waits("get")
        return self._array.copy()

    def item(self) -> Any:
        _waits("item")
        return self._array.item()

    def tolist(self) -> Any:
        _waits("tolist")
        return self._array.tolist()

    def __bool__(self) -> bool:
        _waits("bool")
        return bool(self._array)

    def __float__(self) -> float:
        _waits("float")
        return float(self._array)

    def __int__(self) -> int:
        _waits("int")
        return int(self._array)

    def __index__(self) -> int:
        _waits("index")
        return self._array.__index__()

    def __repr__(self) -> str:
        _waits("repr")
        return repr(self._array)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return lift(self._array[_index(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, (StrictArray, int, float, np.generic)):
            raise TypeError(f"Unsupported type {type(value)}")
        self._array[_index(index)] = lower(value)

    @property
    def flags(self) -> Any:
        return _Flags(self._array.flags)

    @property
    def base(self) -> Any:
        return None if self._array.base is None else lift(self._array.base)


class _Flags:
    """Only what CuPy's flags have: there is no ``writeable``."""

    def __init__(self, flags: Any) -> None:
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata


def _index(index: Any) -> Any:
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, StrictArray):
            if part.dtype.kind == "b":
                _waits("picking by a boolean mask")  # CuPy counts them: how long is the result?
        elif not (part is None or part is Ellipsis or isinstance(part, (int, slice, np.integer))):
            raise IndexError(f"Unsupported type {type(part)}")
    return lower(index)


def _operator(name: str, in_place: bool) -> Callable[..., Any]:
    def operate(self: Any, *others: Any) -> Any:
        for other in others:
            if isinstance(other, np.ndarray):
                raise TypeError(f"Unsupported type {np.ndarray}")
            if not isinstance(other, (StrictArray, int, float, np.generic)):
                return NotImplemented
        out = getattr(self._array, name)(*[lower(other) for other in others])
        return self if in_place else lift(out)

    return operate


def _method(name: str, allowed: list[str] | None) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _checked(f"ndarray.{name}", allowed, kwargs)
        if name == "nonzero":
            _waits(name)
        return lift(getattr(self._array, name)(*lower(args), **lower(kwargs)))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    for _form in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(StrictArray, _form, _operator(_form, in_place=_form.startswith("__i")))
for _form in (
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__eq__",
    "__ne__",
    "__neg__",
    "__pos__",
    "__abs__",
    "__invert__",
):
    setattr(StrictArray, _form, _operator(_form, in_place=False))
for _name, _allowed in API["ndarray"].items():
    if hasattr(StrictArray, _name) or _name in ("data", "flat"):
        continue
    if callable(getattr(np.ndarray, _name)):
        setattr(StrictArray, _name, _method(_name, _allowed))
    else:  # shape, dtype, T ...
        setattr(StrictArray, _name, property(lambda self, _name=_name: lift(getattr(self._array, _name))))


# ---------------------------------------------------------------------------- the module

_FROM_HOST = {"array", "asarray", "asanyarray", "ascontiguousarray"}  # take NumPy arrays and lists: host to device
_NO_ARRAYS = {"arange", "empty", "eye", "full", "identity", "linspace", "ones", "tri", "zeros", "broadcast_shapes"}
_NO_ARRAYS |= {"result_type", "can_cast", "promote_types", "issubdtype", "isscalar"}
_WAIT = {"argwhere", "array_equal", "flatnonzero", "nonzero", "unique"}  # the size of the result depends on values


class _Function:
    def __init__(self, numpys: Any, allowed: list[str] | None) -> None:
        self.name, self.allowed, self.numpys = numpys.__name__, allowed, numpys

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.name
        _checked(name, self.allowed, kwargs)
        if name in _FROM_HOST:
            return lift(self.numpys(_host(args[0]), *args[1:], **kwargs))
        if name in _WAIT:
            _waits(name)
        if name not in _NO_ARRAYS:
            self._takes_arrays(args)
        return lift(self.numpys(*lower(args), **lower(kwargs)))

    def _takes_arrays(self, args: tuple[Any, ...]) -> None:
        """CuPy takes no list for an array, and `where` no scalar for the condition."""
        first = args[0]
        if isinstance(first, (list, tuple)) and self.name in ("concatenate", "stack", "hstack", "vstack"):
            first = first[0]
        if isinstance(first, str) and self.name == "einsum":
            first = args[1]
        scalars = isinstance(self, _Ufunc) and isinstance(first, (int, float, np.generic))
        if not isinstance(first, StrictArray) and not scalars:
            raise TypeError(f"Unsupported type {type(first)}: {self.name} takes arrays of the device")


class _Ufunc(_Function):
    def at(self, array: Any, indices: Any, values: Any = None) -> None:
        if self.name != "add" or array.dtype.kind not in "fiu" or array.dtype.itemsize < 2:
            raise TypeError(f"{self.name}.at does not support {array.dtype}")
        if not isinstance(values, (StrictArray, int, float)):
            raise TypeError(f"Unsupported type {type(values)}")
        self.numpys.at(array._array, _index(indices), lower(values))


def _host(value: Any) -> Any:
    """Nested lists may hold 0-d arrays of the device, as CuPy's may."""
    if isinstance(value, (list, tuple)):
        return [_host(v) for v in value]
    return value._array if isinstance(value, StrictArray) else value


class _Module:
    """``xp`` of the device: NumPy's functions, as far as CuPy has them."""

    __name__ = "strict"
    ndarray = StrictArray

    def __init__(self, names: str, numpys: Any) -> None:
        self._names, self._numpys = API[names], numpys

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(f"module 'strict' has no attribute {name!r}: CuPy has none")
        found = getattr(self._numpys, name)
        if callable(found) and not isinstance(found, type):
            found = _Ufunc(found, UFUNC) if isinstance(found, np.ufunc) else _Function(found, self._names[name])
        self.__dict__[name] = found
        return found


module = _Module("module", np)
module.linalg = _Module("linalg", np.linalg)


def register() -> None:
    """Make the device known: ``ta.Tensor(..., device="strict")``."""
    from tinygrad_attn.autodiff.arrays import register_device

    register_device("strict", lambda: module)
