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


Method = Callable[
    ..., Any
]  # an operation itself is the method: one Python call less (0.1 us), and its help is the operation's


def _reflected(operation: Method) -> Method:
    """``2 * x``: the operation with its arguments exchanged."""
    return lambda self, other: operation(other, self)


def _in_place(operation: Method, sign: str) -> Method:
    """``w -= lr * w.grad``: new values for this very tensor under no_grad; elsewhere ``x += y`` just means
    ``x = x + y``, a new tensor; a leaf that requires a gradient refuses that."""

    def update(self: Any, other: Any) -> Any:
        if current().recording:
            if self._node is not None and self._node.op is LEAF:
                raise RuntimeError(
                    f"x {sign}= ... would replace a leaf by a computed tensor; write it inside ta.no_grad() to update "
                    f"the values, or y = x {sign} ... for a new tensor"
                )
            return operation(self, other)
        values = operation(self, other)._data
        if values.shape != self._data.shape:
            raise ValueError(f"x {sign}= ...: expected a result of shape {self._data.shape}, got {values.shape}")
        if values.dtype.kind == "f" and self._data.dtype.kind != "f":
            raise TypeError(f"x {sign}= ...: {self._data.dtype} cannot hold the result; write x = x {sign} ...")
        self._replace(values.astype(self._data.dtype, copy=False))
        return self

    return update


def _compared(sign: str, compare: Method) -> Method:
    """``x > 0`` as a plain boolean array."""

    def comparison(x: Traced, y: Any) -> Array:
        try:  # an array takes the Tensor's dtype, as in arithmetic
            return compare(x._data, y._data if isinstance(y, Traced) else constant(y, x._data))
        except (TypeError, ValueError) as error:
            raise failure(sign, ("x", "y"), (x._data, plain(y)), error) from None

    return comparison


def _is_numeric(other: Any) -> bool:
    return isinstance(other, (bool, int, float, list, tuple)) or hasattr(other, "dtype")


_EQUAL, _UNEQUAL = _compared("==", operator.eq), _compared("!=", operator.ne)


class Operators(Traced):
    """Base of Tensor.  Comparisons give plain boolean arrays: they have no gradient."""

    __slots__ = ()
    __array_ufunc__ = array_ufunc
    __array_function__ = array_function
    __array_priority__ = 1000  # CuPy asks for this before it takes over an operator
    __hash__ = object.__hash__

    # ------------------------------------------------------------------------ arithmetic

    __add__: Method = elementwise.add  # the operations themselves: one Python call less (0.1 us)
    __sub__: Method = elementwise.sub
    __mul__: Method = elementwise.mul
    __truediv__: Method = elementwise.div
    __pow__: Method = elementwise.pow
    __matmul__: Method = matmul.matmul

    __radd__ = _reflected(elementwise.add)
    __rsub__ = _reflected(elementwise.sub)
    __rmul__ = _reflected(elementwise.mul)
    __rtruediv__ = _reflected(elementwise.div)
    __rpow__ = _reflected(elementwise.pow)
    __rmatmul__ = _reflected(matmul.matmul)
    __neg__: Method = elementwise.neg
    __abs__: Method = elementwise.abs

    def __pos__(self) -> Tensor:
        return self  # type: ignore[return-value]

    # ------------------------------------------------------------------------ in place, under no_grad only

    __iadd__ = _in_place(elementwise.add, "+")
    __isub__ = _in_place(elementwise.sub, "-")
    __imul__ = _in_place(elementwise.mul, "*")
    __itruediv__ = _in_place(elementwise.div, "/")
    __ipow__ = _in_place(elementwise.pow, "**")
    __imatmul__ = _in_place(matmul.matmul, "@")

    # ------------------------------------------------------------------------ comparisons

    __lt__ = _compared("<", operator.lt)
    __le__ = _compared("<=", operator.le)
    __gt__ = _compared(">", operator.gt)
    __ge__ = _compared(">=", operator.ge)

    def __eq__(self, other: Any) -> Any:
        """With an array or a number: elementwise.  Between two Tensors: identity, so that ``x in tensors``
        means what it says; compare values as ``x == y.data``."""
        if isinstance(other, Traced) or not _is_numeric(other):
            return self is other
        return _EQUAL(self, other)

    def __ne__(self, other: Any) -> Any:
        if isinstance(other, Traced) or not _is_numeric(other):
            return self is not other
        return _UNEQUAL(self, other)

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
                f"the truth of a tensor of shape {self._data.shape} is not one answer; "
                "write (x > 0).any() or (x > 0).all()"
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
        if copy is False and dtype not in (None, self._data.dtype):
            raise ValueError(f"a Tensor of {self._data.dtype} cannot become an array of {dtype} without a copy")
        if copy or dtype not in (None, self._data.dtype):
            return np.array(self._data, dtype=dtype)
        return self.data  # type: ignore[attr-defined]

    def numpy(self) -> np.ndarray:
        """A NumPy copy of the values."""
        made = np.array(to_host(self._data))
        told("numpy()", [self], made)
        return made

    # ------------------------------------------------------------------------ reductions

    sum: Method = reduce.sum
    mean: Method = reduce.mean
    var: Method = reduce.var
    std: Method = reduce.std
    max: Method = reduce.max
    min: Method = reduce.min
    prod: Method = reduce.prod
    cumsum: Method = reduce.cumsum
    argmax: Method = reduce.argmax

    # ------------------------------------------------------------------------ shape

    def reshape(self, *lengths: Any) -> Tensor:
        return shape.reshape(self, lengths[0] if len(lengths) == 1 else lengths)

    def transpose(self, *axes: Any) -> Tensor:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return shape.transpose(self, order)

    swapaxes: Method = shape.swapaxes
    squeeze: Method = shape.squeeze

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

    exp: Method = elementwise.exp
    log: Method = elementwise.log
    sqrt: Method = elementwise.sqrt
    abs: Method = elementwise.abs
    clip: Method = choice.clip
