"""The array module behind each array: NumPy, or CuPy when an array of CuPy's type comes in.

Nothing here imports CuPy until a CUDA device is asked for by name.  Everywhere else the array
itself says which module computes on it: ``module_of(x).exp(x)``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # a NumPy or CuPy array; inside rules also a Tensor (see ops/)

_MODULE_OF_TYPE: dict[type, Any] = {np.ndarray: np}
_REGISTERED: list[Any] = []  # modules given to register_device


def module_of(array: Array) -> Any:
    """The array module (``numpy``, ``cupy``) that computes on `array`.

    >>> module_of(np.ones(3)).__name__
    'numpy'
    """
    try:
        return _MODULE_OF_TYPE[type(array)]
    except KeyError:
        module = np if isinstance(array, (np.generic, bool, int, float)) else _module_that_made(array)
        if module is None:
            raise TypeError(f"expected a NumPy or CuPy array, got {type(array).__name__}") from None
        _MODULE_OF_TYPE[type(array)] = module
        return module


def _module_that_made(array: Any) -> Any:
    """NumPy, CuPy or a registered module if `array` is its ``ndarray``, else None.  (CuPy's arrays have no
    ``__array_namespace__`` to ask, and those of other libraries that do are not ours to compute on.)"""
    for module in (np, sys.modules.get("cupy"), *_REGISTERED):  # a CuPy array exists: CuPy is imported
        if isinstance(array, getattr(module, "ndarray", ())):
            return module
    return None


def is_array(value: Any) -> bool:
    """True for a NumPy or CuPy array; False for scalars (NumPy's too), lists and Tensors."""
    return isinstance(value, np.ndarray) or _module_that_made(value) is not None


# ---------------------------------------------------------------------------- devices


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise RuntimeError(
            "device 'cuda' was asked for, but CuPy is not installed; "
            "install it with: pip install 'tinygrad_attn[cuda13]' (or [cuda12]), or use device='cpu'"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device 'cuda' was asked for, but CUDA finds no usable GPU: {error}; use device='cpu'"
        ) from error
    if not count:
        raise RuntimeError("device 'cuda' was asked for, but CUDA finds no GPU; use device='cpu'")
    return cupy


_DEVICE_MODULES: dict[str, Callable[[], Any]] = {"cpu": lambda: np, "cuda": _cupy}


def register_device(name: str, load: Callable[[], Any]) -> None:
    """Let `name` be a device whose arrays are the ``ndarray`` of the module that `load()` returns."""
    _DEVICE_MODULES[name] = load
    _REGISTERED.append(load())


def device_of(array: Array) -> str:
    """``"cpu"``, or ``"cuda:0"`` and so on for a CuPy array."""
    device = getattr(array, "device", "cpu")
    return device if isinstance(device, str) else f"cuda:{device.id}"


def fresh(value: Any, dtype: Any = None, device: str | None = None) -> Array:
    """A new array on `device` holding `value` (device None: where `value` is; lists: the CPU).

    Errors: ValueError for an unknown device, RuntimeError for ``"cuda"`` without CuPy or a GPU."""
    if device is None:
        return (module_of(value) if is_array(value) else np).array(value, dtype=dtype, copy=True)
    kind, _, number = str(device).partition(":")
    if kind not in _DEVICE_MODULES or (number and (kind != "cuda" or not number.isdigit())):
        known = ", ".join(repr(name) for name in _DEVICE_MODULES)
        raise ValueError(f"unknown device {device!r}; expected one of {known}, or 'cuda:N' for GPU number N")
    module = _DEVICE_MODULES[kind]()
    if is_array(value) and module_of(value) is not module:
        value = to_host(value)
    if not number:
        return module.array(value, dtype=dtype, copy=True)
    with module.cuda.Device(int(number)):  # compute there inside the same `with`: CuPy's current device decides
        return module.array(value, dtype=dtype, copy=True)


def to_host(array: Array) -> np.ndarray:
    """`array` (or a NumPy scalar) as a NumPy array; a copy only when it lives on another device."""
    return np.asarray(array) if isinstance(array, (np.ndarray, np.generic)) else array.get()


def scalar(array: Array) -> Any:
    """The one entry of `array` as a Python number (this waits for the device)."""
    return array.item()
