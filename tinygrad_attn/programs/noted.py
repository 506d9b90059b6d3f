"""Noted: an array that tells the tape what is done with it.

NumPy asks an array's class before it computes (``__array_ufunc__``, ``__array_function__``), and methods are looked up
in the class: here each of them computes on the plain array and notes the call.  So an operation needs no change to be
noted, nor does NumPy that the user wrote.  A function that makes an array out of nothing (np.empty) has nobody to ask:
for the time of the recording it stands replaced (``replaced``)."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..autodiff.graph import Traced
from .tape import Line, Tape, Value

_asarray = np.asarray  # NumPy's own, while ours stands in its place
_one_at_a_time = threading.Lock()  # names of NumPy stand replaced while a step is recorded
_here = threading.local()  # .tape: the tape of the recording in this thread, or None


def tape() -> Tape | None:
    return getattr(_here, "tape", None)


class Noted(np.ndarray):
    """An array on the tape.  `plain` is the array itself, `value` what the tape knows of it."""

    plain: np.ndarray | None
    value: Value | None
    tape: Tape | None

    def __array_finalize__(self, source: Any) -> None:
        self.plain = self.value = self.tape = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if any(isinstance(x, Traced) for x in inputs):
            return NotImplemented  # the Tensor's turn: it asks us again, with its array
        name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        function = getattr(ufunc, method)
        if out is None:
            return noted("call", name, function, inputs, kwargs)
        return noted("call", name, function, inputs, {**kwargs, "out": out if len(out) > 1 else out[0]})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module = function.__module__.replace("numpy", "np", 1)
        return noted("call", f"{module}.{function.__name__}", function, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        return noted("get", "", np.ndarray.__getitem__, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        noted("set", "", np.ndarray.__setitem__, (self, index, value), {})


class Scalar(Noted):
    """Where NumPy gives a number that is no array: ``x += 1`` makes a new one."""


_METHODS = """astype copy sum max min any all prod reshape ravel flatten take mean var std cumsum cumprod repeat dot
    argmax argmin fill sort argsort put searchsorted nonzero clip round swapaxes transpose squeeze view diagonal trace
    choose compress conj partition argpartition byteswap"""
_IN_PLACE = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
_LOOKS = ("__bool__", "__float__", "__int__", "__index__", "item", "tolist")
_CREATORS = """empty zeros ones full arange eye tri array asarray ascontiguousarray empty_like zeros_like ones_like
    full_like"""


def _method(name: str) -> Callable[..., Any]:
    raw = getattr(np.ndarray, name)
    return lambda self, *args, **kwargs: noted("method", name, raw, (self, *args), kwargs)


def _look(name: str) -> Callable[..., Any]:
    raw, what = getattr(np.ndarray, name), name.strip("_")

    def look(self: Noted, *args: Any) -> Any:
        answer, tape_ = raw(plain(self), *args), tape()
        if tape_ is not None:
            tape_.add("look", what, (value_of(self, tape_), *args), {}).answer = answer
        return answer

    return look


def _attribute(name: str) -> property:
    get = getattr(np.ndarray, name).__get__
    return property(lambda self: noted("attribute", name, get, (self,), {}))


def _in_place(name: str) -> Callable[..., Any]:
    return lambda self, other: getattr(self, name)(other)


for _name in _METHODS.split():
    if hasattr(np.ndarray, _name):
        setattr(Noted, _name, _method(_name))
for _name in _LOOKS:
    setattr(Noted, _name, _look(_name))
for _name in ("T", "mT", "real", "imag"):
    setattr(Noted, _name, _attribute(_name))
for _name in _IN_PLACE.split():
    setattr(Scalar, f"__i{_name}__", _in_place(f"__{_name}__"))


# ---------------------------------------------------------------------------- noting


def plain(x: Any) -> Any:
    """`x` with the plain array in place of each Noted."""
    if isinstance(x, Noted):
        return np.ndarray.view(x, np.ndarray) if x.plain is None else x.plain
    if type(x) in (tuple, list):
        return type(x)(plain(part) for part in x)
    if type(x) is dict:
        return {name: plain(part) for name, part in x.items()}
    return slice(plain(x.start), plain(x.stop), plain(x.step)) if type(x) is slice else x


def value_of(x: Any, tape_: Tape) -> Any:
    """`x` with the tape's value in place of each array."""
    if isinstance(x, np.ndarray):
        return x.value if isinstance(x, Noted) and x.tape is tape_ else tape_.value(plain(x))
    if type(x) in (tuple, list):
        return type(x)(value_of(part, tape_) for part in x)
    if type(x) is dict:
        return {name: value_of(part, tape_) for name, part in x.items()}
    return x


def waiting(array: np.ndarray) -> Noted:
    """A Noted for an array that was there before; the tape hears of it when it is used."""
    made = np.ndarray.view(array, Noted)
    made.plain = array
    return made


def of(value: Value, tape_: Tape, scalar: bool = False) -> Noted:
    """The Noted of a value."""
    made = np.ndarray.view(value.array, Scalar if scalar else Noted)
    made.plain, made.value, made.tape = value.array, value, tape_
    return made


def noted(form: str, what: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call `function` on plain arrays and note it; what it gives is noted too."""
    tape_ = tape()
    args_, kwargs_ = plain(tuple(args)), plain(dict(kwargs))
    if tape_ is None:  # the recording is over: an array that is left from it is one like any other
        return function(*args_, **kwargs_)
    line = tape_.add(form, what, value_of(tuple(args), tape_), value_of(dict(kwargs), tape_))
    try:
        _here.tape = None
        given = function(*args_, **kwargs_)
    except BaseException:
        tape_.lines.remove(line)
        raise
    finally:
        _here.tape = tape_
    into = kwargs.get("out")
    if into is not None:
        return into
    if type(given) in (tuple, list):
        line.many = type(given)
        return type(given)(_result(part, line, tape_) for part in given)
    return _result(given, line, tape_)


def _result(given: Any, line: Line, tape_: Tape) -> Any:
    if isinstance(given, np.generic):
        return of(tape_.result(line, _asarray(given)), tape_, scalar=True)
    if not isinstance(given, np.ndarray):
        return given
    for value in line.reads:  # np.asarray gives what it got
        if value.array is given:
            tape_.lines.remove(line)
            value.used -= 1
            return of(value, tape_)
    return of(tape_.result(line, given), tape_)


# ---------------------------------------------------------------------------- arrays out of nothing


@contextmanager
def replaced(tape_: Tape) -> Iterator[None]:
    """In this thread np.empty and its like note what they make, and math.isfinite asks NumPy."""
    _one_at_a_time.acquire()
    real = {name: getattr(np, name) for name in _CREATORS.split()}
    finite = math.isfinite

    def creator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        copies = name in ("array", "asarray", "ascontiguousarray")  # of an array that is not noted: a constant

        def create(*args: Any, **kwargs: Any) -> Any:
            # compiled code that asks for an array (numpy.random) fills it unseen: only Python that names us is noted
            asked = name in sys._getframe(1).f_code.co_names
            if tape() is None or not asked or (copies and not any(isinstance(x, Noted) for x in args)):
                return function(*plain(args), **plain(kwargs))
            return noted("call", f"np.{name}", function, args, kwargs)

        return create

    try:
        for name, function in real.items():
            setattr(np, name, creator(name, function))
        math.isfinite = lambda x: bool(np.isfinite(x)) if isinstance(x, Noted) else finite(x)
        _here.tape = tape_
        yield
    finally:
        _here.tape = None
        math.isfinite = finite
        for name, function in real.items():
            setattr(np, name, function)
        _one_at_a_time.release()
