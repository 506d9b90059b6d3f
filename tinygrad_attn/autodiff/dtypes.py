"""Before and after a forward: one dtype for all operands, arrays for results.

The dtype rule: nothing widens.  An operand that is no Tensor takes the Tensor's dtype; two Tensors
promote (float64 wins); integers meeting floats become the float; a float result made of integers is
float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import Array, device_of, is_array, module_of
from .errors import failure
from .graph import Op, Traced

DEFAULT_DTYPE = np.dtype(np.float32)


def plain(x: Any) -> Any:
    """The array of a Tensor; anything else as it is."""
    return x._data if isinstance(x, Traced) else x


def constant(value: Any, like: Array) -> Any:
    """An operand that is no Tensor, ready to meet `like`: Python scalars stay (they never widen),
    NumPy scalars become Python ones, arrays and lists take `like`'s dtype."""
    if isinstance(value, np.generic):  # first: np.float64 is also a float, one that widens
        return value.item()
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask; write array.filled(...)")
    if isinstance(value, np.ndarray) and isinstance(like, np.ndarray):
        value = np.asarray(value)  # a memory map is an array, too
    if is_array(value):
        if type(value) is not type(like) and module_of(value) is not module_of(like):
            raise TypeError(
                f"expected arrays on one device, a Tensor on {device_of(like)} met an array on {device_of(value)}; "
                f"write ta.Tensor(array, device={device_of(like)!r}) first"
            )
        array = value
    elif isinstance(value, (list, tuple)) and isinstance(like, np.ndarray):
        array = np.asarray(value)
    elif isinstance(value, (list, tuple)):
        array = module_of(like).asarray(value)
    else:
        raise TypeError(f"expected a Tensor, an array or a number, got {type(value).__name__}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"expected numbers, got an array of dtype {array.dtype}")
    if like.dtype.kind == "f":
        return array.astype(like.dtype)
    return array.astype(DEFAULT_DTYPE) if array.dtype.kind == "f" else array


def common_dtype(dtypes: Sequence[np.dtype]) -> np.dtype:
    """The dtype that Tensors of these dtypes compute in."""
    floats = [dtype for dtype in dtypes if dtype.kind == "f"]
    return np.result_type(*(floats or dtypes))


def promoted(values: list[Any]) -> None:
    """Bring the arrays among `values` to one dtype, in place in the list."""
    arrays = [value for value in values if hasattr(value, "dtype")]
    if any(array.dtype != arrays[0].dtype for array in arrays):
        dtype = common_dtype([array.dtype for array in arrays])
        values[:] = [x.astype(dtype, copy=False) if hasattr(x, "dtype") else x for x in values]


def settled(out: Any, inputs: Sequence[Any], like: Array) -> Array:
    """`out` as an array (reductions and 0-d arithmetic of NumPy give scalars) that did not widen."""
    if type(out) is not type(like):
        out = module_of(like).asarray(out)
    if out.dtype == np.float64 and not any(getattr(x, "dtype", None) == np.float64 for x in inputs):
        widest = [x.dtype for x in inputs if getattr(x, "dtype", DEFAULT_DTYPE).kind == "f" and hasattr(x, "dtype")]
        out = out.astype(common_dtype(widest) if widest else DEFAULT_DTYPE)
    return out


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """What exponentials and statistics are computed in: float32 for float16 and for integers."""
    return dtype if dtype.kind == "f" and dtype.itemsize > 2 else DEFAULT_DTYPE


def widened(x: Array) -> Array:
    """x in the dtype that exponentials and statistics are computed in."""
    return x.astype(wide_dtype(x.dtype), copy=False)


def narrowed(out: Array, x: Array) -> Array:
    """What was computed on ``widened(x)``, in x's own dtype again (of integers: float32)."""
    return out.astype(x.dtype, copy=False) if x.dtype.kind == "f" else out


# ---------------------------------------------------------------------------- operands


def operand(name: str, argument: str, value: Any, like: Traced) -> Any:
    """The array or number of one operand of operation `name`, which meets the Tensor `like`."""
    if isinstance(value, Traced):
        return value._data
    try:
        return constant(value, like._data)
    except TypeError as error:
        raise failure(name, (argument,), (value,), error) from None


def without_gradient(op: Op, i: int, value: Any) -> Any:
    """The array of setting number i.  Settings have no rule: a Tensor that requires a gradient is an error."""
    if isinstance(value, Traced) and value._node is not None:
        error = TypeError(f"{op.arguments[i]} has no gradient here; write {op.arguments[i]}.detach() to use its value")
        raise failure(op.name, (op.arguments[i],), (value._data,), error)
    return plain(value)
