"""What can be written on a tensor: operators and methods, one line each.  The maths is in ops/."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, device_of, to_host
from .dtypes import constant, plain
from .errors import failure
from .graph import LEAF, Traced
from .mode import current
from .ops import choice, elementwise, index, matmul, reduce, shape
from .protocols import array_function, array_ufunc
from .recording import told

if TYPE_CHECKING:
    from .tensor import Tensor

Axis = int | tuple[int, ...] | None


class Operators(Traced):
    """Base of Tensor.  Comparisons give plain boolean arrays: they have no gradient."""

    __slots__ = ()
    __array_ufunc__ = array_ufunc
    __array_function__ = array_function
    __array_priority__ = 1000  # CuPy asks for this before it takes over an operator
    __hash__ = object.__hash__

    # ------------------------------------------------------------------------ arithmetic

    __add__: Callable[..., Any] = elementwise.add  # the operations themselves: one Python call less (0.1 us)
    __sub__: Callable[..., Any] = elementwise.sub
    __mul__: Callable[..., Any] = elementwise.mul
    __truediv__: Callable[..., Any] = elementwise.div
    __pow__: Callable[..., Any] = elementwise.pow
    __matmul__: Callable[..., Any] = matmul.matmul

    def __radd__(self, other: Any) -> Tensor:
        return elementwise.add(other, self)

    def __rsub__(self, other: Any) -> Tensor:
        return elementwise.sub(other, self)

    def __rmul__(self, other: Any) -> Tensor:
        return elementwise.mul(other, self)

    def __rtruediv__(self, other: Any) -> Tensor:
        return elementwise.div(other, self)

    def __rpow__(self, other: Any) -> Tensor:
        return elementwise.pow(other, self)

    def __rmatmul__(self, other: Any) -> Tensor:
        return matmul.matmul(other, self)

    def __neg__(self) -> Tensor:
        return elementwise.neg(self)

    def __pos__(self) -> Tensor:
        return self  # type: ignore[return-value]

    def __abs__(self) -> Tensor:
        return elementwise.abs(self)

    # ------------------------------------------------------------------------ in place, under no_grad only

    def __iadd__(self, other: Any) -> Tensor:  # type: ignore[misc]
        return self._in_place(elementwise.add, "+", other)

    def __isub__(self, other: Any) -> Tensor:  # type: ignore[misc]
        return self._in_place(elementwise.sub, "-", other)

    def __imul__(self, other: Any) -> Tensor:  # type: ignore[misc]
        return self._in_place(elementwise.mul, "*", other)

    def __itruediv__(self, other: Any) -> Tensor:  # type: ignore[misc]
        return self._in_place(elementwise.div, "/", other)

    def __ipow__(self, other: Any) -> Tensor:  # type: ignore[misc]
        return self._in_place(elementwise.pow, "**", other)

    def __imatmul__(self, other: Any) -> Tensor:  # type: ignore[misc]
        return self._in_place(matmul.matmul, "@", other)

    def _in_place(self, operation: Any, sign: str, other: Any) -> Tensor:
        """New values for this very tensor under no_grad (``w -= lr * w.grad``); elsewhere ``x += y``
        just means ``x = x + y``, a new tensor; a leaf that wants gradients refuses that."""
        node = self._node
        if current().recording and node is not None and node.op is LEAF:
            raise RuntimeError(
                f"x {sign}= ... would replace a leaf by a computed tensor; write it inside ta.no_grad() to update "
                f"the values, or y = x {sign} ... for a new tensor"
            )
        if current().recording:
            return operation(self, other)
        values = operation(self, other)._data
        if values.shape != self._data.shape:
            raise ValueError(f"x {sign}= ...: expected a result of shape {self._data.shape}, got {values.shape}")
        if values.dtype.kind == "f" and self._data.dtype.kind != "f":
            raise TypeError(f"x {sign}= ...: {self._data.dtype} cannot hold the result; write x = x {sign} ...")
        self._replace(values.astype(self._data.dtype, copy=False))  # type: ignore[attr-defined]
        return self  # type: ignore[return-value]

    # ------------------------------------------------------------------------ comparisons

    def __lt__(self, other: Any) -> Array:
        return _compared("<", operator.lt, self, other)

    def __le__(self, other: Any) -> Array:
        return _compared("<=", operator.le, self, other)

    def __gt__(self, other: Any) -> Array:
        return _compared(">", operator.gt, self, other)

    def __ge__(self, other: Any) -> Array:
        return _compared(">=", operator.ge, self, other)

    def __eq__(self, other: Any) -> Any:
        """With an array or a number: elementwise.  Between two Tensors: identity, so that ``x in tensors``
        means what it says; compare values as ``x == y.data``."""
        if isinstance(other, Traced) or not _is_numeric(other):
            return self is other
        return _compared("==", operator.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        if isinstance(other, Traced) or not _is_numeric(other):
            return self is not other
        return _compared("!=", operator.ne, self, other)

    # ------------------------------------------------------------------------ indexing and iteration

    def __getitem__(self, key: Any) -> Tensor:
        return index.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "x[...] = ... would lose the gradient of what it overwrites; write x = ta.where(mask, value, x), "
            "or x = ta.scatter_add(x, indices, values), or assign a whole new array: x.data = array"
        )

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("a 0-d tensor has no length")
        return self._data.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    # ------------------------------------------------------------------------ to Python and NumPy

    def item(self) -> Any:
        """The one entry as a Python number (on a GPU this waits for the device)."""
        if self._data.size != 1:
            raise ValueError(f"item: expected one entry, got shape {self._data.shape}")
        told("item()", [self], None)
        return self._data.item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __format__(self, spec: str) -> str:
        """``f"{loss:.3f}"`` writes the one entry as a number; without a format, what print shows."""
        return format(self.item(), spec) if spec else str(self)

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"the truth of a tensor of shape {self._data.shape} is not one answer; write (x > 0).any() or (x > 0).all()"
            )
        return bool(self.item())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iub":
            raise TypeError(f"only an integer tensor is an index, got {self._data.dtype}")
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not isinstance(self._data, np.ndarray):
            raise TypeError(
                f"a Tensor on {device_of(self._data)} does not become a NumPy array silently; write x.numpy()"
            )
        if copy or dtype not in (None, self._data.dtype):
            return np.array(self._data, dtype=dtype)
        return self.data  # type: ignore[attr-defined]

    def numpy(self) -> np.ndarray:
        """A NumPy copy of the values."""
        made = np.array(to_host(self._data))
        told("numpy()", [self], made)
        return made

    # ------------------------------------------------------------------------ reductions

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return reduce.sum(self, axis, keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return reduce.mean(self, axis, keepdims)

    def var(self, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        return reduce.var(self, axis, keepdims, ddof)

    def std(self, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        return reduce.std(self, axis, keepdims, ddof)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return reduce.max(self, axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return reduce.min(self, axis, keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return reduce.prod(self, axis, keepdims)

    def cumsum(self, axis: int = -1) -> Tensor:
        return reduce.cumsum(self, axis)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        return reduce.argmax(self, axis, keepdims)

    # ------------------------------------------------------------------------ shape

    def reshape(self, *lengths: Any) -> Tensor:
        return shape.reshape(self, lengths[0] if len(lengths) == 1 else lengths)

    def transpose(self, *axes: Any) -> Tensor:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return shape.transpose(self, order)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        return shape.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Tensor:
        return shape.squeeze(self, axis)

    @property
    def T(self) -> Tensor:
        """All axes reversed."""
        return shape.transpose(self)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged: the transpose of each matrix in a batch."""
        return shape.swapaxes(self, -1, -2)

    def astype(self, dtype: Any, copy: bool = True) -> Tensor:
        """The values in another dtype; the gradient comes back in this one's."""
        return elementwise.astype(self, dtype)

    # ------------------------------------------------------------------------ functions of one argument

    def exp(self) -> Tensor:
        return elementwise.exp(self)

    def log(self) -> Tensor:
        return elementwise.log(self)

    def sqrt(self) -> Tensor:
        return elementwise.sqrt(self)

    def abs(self) -> Tensor:
        return elementwise.abs(self)

    def clip(self, low: float | None = None, high: float | None = None) -> Tensor:
        return choice.clip(self, low, high)


def _is_numeric(other: Any) -> bool:
    return isinstance(other, (bool, int, float, list, tuple)) or hasattr(other, "dtype")


def _compared(sign: str, compare: Any, x: Traced, y: Any) -> Array:
    y = plain(y)
    try:
        return compare(x._data, y if type(y) is type(x._data) else constant(y, x._data))
    except (TypeError, ValueError) as error:
        raise failure(sign, ("x", "y"), (x._data, y), error) from None
