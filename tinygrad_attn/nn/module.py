"""Module: parameters are the Tensors among its attributes, found by walking them.

    class Linear(Module):
        def __init__(self, d_in, d_out):
            self.W = Tensor(...)          # a parameter, because it is a Tensor
        def forward(self, x):
            return x @ self.W

Lists, tuples and dicts of modules or tensors are walked too.  Attributes that begin with an underscore
are private: no parameters.  While a module runs, names given inside carry its path: ``blocks.0.attn``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from ..autodiff.arrays import fresh
from ..autodiff.mode import MODE, current
from ..autodiff.tensor import Tensor


class Module:
    """Base class of layers and models: define ``forward`` and call the module."""

    training: bool = True
    _scope: str = ""  # this module's name in its parent
    _results: frozenset[str] = frozenset()  # attributes that were set while forward ran

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward method")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        now = current()
        MODE.set(now.but(scope=now.path(self._scope) if self._scope else now.scope, caller=self))
        try:
            return self.forward(*args, **kwargs)
        finally:
            MODE.set(now)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if current().caller is self:  # what forward keeps, its attention maps say, is no parameter
            object.__setattr__(self, "_results", self._results | {name})
        for path, child in _items(name, value):
            if isinstance(child, Module):
                object.__setattr__(child, "_scope", path)

    # ------------------------------------------------------------------------ walking

    def _children(self) -> Iterator[tuple[str, Any]]:
        """(name, Tensor or Module) for the public attributes, in the order they were made; without results, which are
        computed tensors, and constants that forward put there."""
        for name, value in vars(self).items():
            for path, child in () if name.startswith("_") else _items(name, value):
                if isinstance(child, Module) or (child.is_leaf and (child.requires_grad or name not in self._results)):
                    yield path, child

    def named_modules(self, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Module]]:
        """This module ("") and every module below it once, with dotted paths; a shared one has the name found first."""
        seen = set() if seen is None else seen
        seen.add(id(self))
        yield prefix, self
        for name, child in self._children():
            if isinstance(child, Module) and id(child) not in seen:
                object.__setattr__(child, "_scope", name)  # lists may have changed since they were set
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter once, with its dotted path; a shared one has the name found first."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, child in module._children():
                if isinstance(child, Tensor) and id(child) not in seen:
                    seen.add(id(child))
                    yield (f"{path}.{name}" if path else name), child

    def parameters(self) -> list[Tensor]:
        """Every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    # ------------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """name -> NumPy copy of every parameter."""
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put the arrays of `state` into the parameters; nothing is changed unless all of them fit.

        Errors: KeyError for missing or unexpected names, ValueError for a wrong shape, all of them named."""
        ours = dict(self.named_parameters())
        check_state("load_state_dict", {name: parameter.shape for name, parameter in ours.items()}, state)
        for name, parameter in ours.items():
            parameter.data = state[name]

    def train(self, training: bool = True) -> Self:
        """Training mode: dropout is on."""
        for _, module in self.named_modules():
            module.training = training
        return self

    def eval(self) -> Self:
        """Evaluation mode: dropout is off."""
        return self.train(False)

    def to(self, device: str) -> Self:
        """Move every parameter, in place, to ``"cpu"`` or ``"cuda"``; gradients are dropped."""
        for parameter in self.parameters():
            moved = fresh(parameter._data, device=device)
            parameter.grad = None
            parameter._replace(moved)
        return self

    def astype(self, dtype: Any) -> Self:
        """Give every parameter of floats another float dtype, in place; gradients are dropped."""
        for parameter in (p for p in self.parameters() if p.dtype.kind == "f"):
            wanted = parameter.requires_grad
            parameter._edited()  # a graph made before has kept the old node: its backward must fail, not be lost
            parameter.requires_grad = False
            parameter._replace(parameter._data.astype(dtype))
            parameter.requires_grad = wanted
        return self

    def zero_grad(self) -> None:
        """Forget the gradients: ``.grad`` is None again."""
        for parameter in self.parameters():
            parameter.grad = None

    def __repr__(self) -> str:
        count = sum(parameter.size for parameter in self.parameters())
        return f"{type(self).__name__}({count:,} parameters)"


def check_state(what: str, expected: Mapping[str, tuple[int, ...]], state: Mapping[str, Any]) -> None:
    """Does `state` hold arrays of the expected names and shapes?  `what` begins the message.

    Errors: KeyError for missing or unexpected names, ValueError for wrong shapes, all of them named."""
    missing, extra = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    if missing or extra:
        raise KeyError(f"{what}: missing {', '.join(missing) or 'nothing'}; unexpected {', '.join(extra) or 'nothing'}")
    shapes = {name: np.shape(state[name]) for name in expected}
    wrong = [
        f"{name}: expected {shape}, got {shapes[name]}" for name, shape in expected.items() if shapes[name] != shape
    ]
    if wrong:
        raise ValueError(f"{what}: {'; '.join(wrong)}")


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors and modules in `value`, which may be one, or a list, tuple or dict of them."""
    if isinstance(value, (Tensor, Module)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _items(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _items(f"{name}.{key}", item)
