"""Tensor: an array and the node that made it.  What can be written on one is in operators.py, the maths in ops/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Array, device_of, fresh, is_array, to_host
from .backward import backward as _run_backward
from .dtypes import DEFAULT_DTYPE
from .graph import LEAF, Traced, extras_of, leaf, tick
from .mode import current, enable_grad
from .operators import Operators
from .ops import elementwise
from .recording import told


class Tensor(Operators):
    """An array whose history is recorded, so that gradients can flow back through it.

    data: numbers, nested lists, a NumPy or CuPy array, or a Tensor; always copied.  Python floats become
    float32, arrays keep their dtype.  requires_grad: collect dL/d(this) in ``.grad``.

    Errors: TypeError for data that is not numeric, or integers with requires_grad.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward(); x.grad.numpy()
    array([2., 4.], dtype=float32)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None, device: str | None = None) -> None:
        given = data
        if isinstance(data, Traced):
            data = data._data
        elif isinstance(data, np.ma.MaskedArray):
            raise TypeError("Tensor: a masked array would lose its mask; write array.filled(...)")
        elif not is_array(data):
            data = _from_python(data, dtype)
        self._data = checked_dtype(fresh(data, dtype, device))
        if not self._data.dtype.isnative:
            self._data = self._data.astype(self._data.dtype.newbyteorder("="))
        self._node = None
        if requires_grad:
            self.requires_grad = True
        told("Tensor(...)", [given], self)

    # ------------------------------------------------------------------------ what it is

    @property
    def data(self) -> Array:
        """The array, as a read-only view; assign to it to replace the values (same shape)."""
        view = self._data.view()
        if isinstance(view, np.ndarray):
            view.flags.writeable = False
        told(".data", [self], view)
        return view

    @data.setter
    def data(self, value: Any) -> None:
        value = fresh(value._data if isinstance(value, Traced) else value, self.dtype, self.device)
        if value.shape != self._data.shape:
            raise ValueError(
                f"x.data = ...: expected shape {self.shape}, got {tuple(value.shape)}; make a new Tensor instead"
            )
        self._replace(value)

    def _replace(self, array: Array) -> None:
        """New values for this tensor.  The old array is left alone; nodes that kept it will notice."""
        self._data = array
        self._edited()

    def _edited(self) -> None:
        """The values changed: a node that kept the old ones must not be used any more."""
        for node in (self._node, getattr(self, "_frozen", None)):
            if node is not None:
                node.edited = tick()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._data.dtype

    @property
    def device(self) -> str:
        return device_of(self._data)

    @property
    def name(self) -> str | None:
        return getattr(self, "_name", None)

    def named(self, name: str) -> Tensor:
        """This tensor, named `name` under the scope in force; a watcher sees it now."""
        mode = current()
        self._name = path = mode.path(name)
        if self._node is not None:
            extras_of(self._node).name = path
        if mode.watcher is not None:
            mode.watcher(path, self)
        return self

    # ------------------------------------------------------------------------ gradients

    @property
    def requires_grad(self) -> bool:
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not self.is_leaf:
            raise RuntimeError("requires_grad of a computed tensor cannot be changed; use x.detach()")
        if not value and self._node is not None:
            # What is computed while it is frozen keeps this array; the one that an optimiser may edit is left to it.
            self._frozen, self._node, self._data = self._node, None, self._data.copy()
        elif value and self._node is None:
            frozen, self._frozen = getattr(self, "_frozen", None), None
            if frozen is not None and frozen.dtype == self.dtype and frozen.shape == self.shape:
                self._node = frozen  # the same leaf: graphs that were made before see its edits
                return
            if self.dtype.kind != "f":
                raise TypeError(
                    f"only floats have gradients, got {self.dtype}; write the numbers with a point, "
                    f"Tensor([7.0], requires_grad=True), or dtype='float32'"
                )
            self._node = leaf(self._data, current())

    @property
    def is_leaf(self) -> bool:
        return self._node is None or self._node.op is LEAF

    @property
    def grad(self) -> Tensor | None:
        """dL/d(this), added up over the backward passes so far; None before the first."""
        return None if self._node is None or self._node.extras is None else self._node.extras.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if self._node is None:
                raise RuntimeError("this tensor does not require a gradient, so it has no .grad to set")
            if not isinstance(value, Tensor) or value._node is None:
                value = Tensor(value, dtype=self.dtype, device=self.device)
            else:
                with enable_grad():  # a copy with the graph: no two tensors share a gradient
                    value = elementwise.astype(value, self.dtype)
            if value.shape != self.shape:
                raise ValueError(f"x.grad = ...: expected shape {self.shape}, got {value.shape}")
        if self._node is not None:
            extras_of(self._node).grad = value

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add dL/dx to the ``.grad`` of every leaf that this tensor depends on (see backward.py)."""
        _run_backward(self, gradient, retain_graph, create_graph)

    def retain_grad(self) -> Tensor:
        """Keep dL/d(this) in ``.grad`` although this is a computed tensor."""
        if self._node is None:
            raise RuntimeError("retain_grad: this tensor has no graph, so no gradient will reach it")
        extras_of(self._node).keeps_grad = True
        return self

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(gradient)` when dL/d(this) is complete; what it returns replaces the gradient.
        Returns a function that removes the hook.

        Errors: ValueError when the hook returns another shape."""
        if self._node is None:
            raise RuntimeError("register_hook: this tensor has no graph, so no gradient will reach it")

        def on_arrays(gradient: Any) -> Any:
            given = gradient if isinstance(gradient, Traced) else wrap(gradient)
            result = hook(given)  # type: ignore[arg-type]
            if result is None:
                return gradient
            result = result if isinstance(result, Traced) else Tensor(result)
            if result._data.shape != gradient.shape:
                raise ValueError(f"hook: expected a gradient of shape {gradient.shape}, got {result._data.shape}")
            if isinstance(gradient, Tensor):
                return result if result._data.dtype == gradient.dtype else elementwise.astype(result, gradient.dtype)
            return result._data.astype(gradient.dtype)

        hooks = extras_of(self._node).hooks
        hooks.append(on_arrays)
        return lambda: hooks.remove(on_arrays) if on_arrays in hooks else None

    def detach(self) -> Tensor:
        """The same values without history.  Of a leaf a copy: an optimiser edits a leaf's own array, and no node
        remembers what was computed with the detached values."""
        made = wrap(self._data.copy() if self._node is not None and self.is_leaf else self._data)
        told("detach()", [self], made)
        return made

    def __reduce__(self) -> Any:
        """For pickle and copy: values, name and ``.grad`` of a leaf; hooks stay behind."""
        if self._node is not None and not self.is_leaf:
            raise TypeError(f"a tensor with a graph (op={self._node.op.name}) has no copy; write x.detach()")
        return _remade, (self._data, self.requires_grad, self.name, None if self.grad is None else self.grad._data)

    # ------------------------------------------------------------------------ elsewhere, and on paper

    def to(self, device: str) -> Tensor:
        """The same values on ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` (a leaf stays a leaf; itself if it is there)."""
        if device in (self.device, self.device.partition(":")[0]):
            return self
        if not self.is_leaf:
            raise RuntimeError("to: move leaves or detached tensors; this one has a graph, which stays on its device")
        return Tensor(self._data, self.requires_grad, device=device)

    def __repr__(self) -> str:
        values = np.array2string(to_host(self._data), precision=4, threshold=20, prefix="Tensor(")
        parts = [f"Tensor({values}", f"dtype={self.dtype}" if self.dtype != DEFAULT_DTYPE else ""]
        parts.append(f"shape={self.shape}" if self.size > 20 or (self.size == 0 and self.ndim > 1) else "")
        parts.append(f"device={self.device!r}" if self.device != "cpu" else "")
        parts.append(f"name={self.name!r}" if self.name else "")
        if self._node is not None:
            parts.append("requires_grad=True" if self.is_leaf else f"op={self._node.op.name}")
        return ", ".join(part for part in parts if part) + ")"

    def _repr_html_(self) -> str:
        from ..show.matrix import array_html

        return array_html(to_host(self._data), self.name or "Tensor")


def checked_dtype(array: Array) -> Array:
    """`array`, if a Tensor may hold it: real numbers of at most 64 bits."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"expected real numbers, got dtype {array.dtype}; write dtype='float32'")
    return array


def wrap(array: Array) -> Tensor:
    """A Tensor around an array that is ours already (no copy)."""
    made: Tensor = object.__new__(Tensor)
    made._data, made._node = array, None
    return made


def _remade(array: Array, requires_grad: bool, name: str | None, grad: Array | None) -> Tensor:
    """The inverse of ``Tensor.__reduce__``."""
    made = Tensor(array, requires_grad)
    made.grad = grad
    made._name = name
    if made._node is not None:
        extras_of(made._node).name = name
    return made


def _from_python(data: Any, dtype: Any) -> Any:
    """Numbers and nested lists (Tensors and 0-d arrays inside are welcome) as one array; float32 by default."""

    def numbers(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [numbers(v) for v in value]
        if isinstance(value, Traced):
            value = value._data
        return to_host(value) if is_array(value) else value

    try:
        array = np.asarray(numbers(data))
    except ValueError as error:
        raise ValueError(f"Tensor: the nested lists do not form a rectangle ({error})") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"Tensor: expected numbers, got {type(data).__name__} (as an array: {array.dtype})")
    typed = hasattr(data, "dtype")  # NumPy scalars, and arrays of other libraries
    return array.astype(DEFAULT_DTYPE) if dtype is None and array.dtype == np.float64 and not typed else array
