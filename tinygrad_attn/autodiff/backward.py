"""steps, backward and grad: three ways to run the walk (walk.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .arrays import module_of
from .dtypes import constant
from .graph import Node, Traced
from .mode import enable_grad
from .ops.elementwise import astype, plain
from .walk import Step, gradients_at, walk

__all__ = ["Step", "backward", "grad", "steps"]


def steps(
    loss: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> Iterator[Step]:
    """Backward, one node at a time: yields a Step (node, gradient, contributions) for each node,
    consumers before parents, and adds to the ``.grad`` of leaves on the way.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor([1.0, 2.0], requires_grad=True)
    >>> for step in ta.steps((x * x).sum()):
    ...     print(step)
    Step(sum, gradient (), 1 contribution)
    Step(mul, gradient (2,), 2 contributions)
    Step(leaf, gradient (2,), 0 contributions)
    """
    for step in walk(*_start(loss, gradient, retain_graph, create_graph)):
        _deliver(step, type(loss))
        yield step


def backward(loss: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
    """Add dL/dx to the ``.grad`` of every leaf x that the loss depends on.

    gradient: dL/d(loss), needed when `loss` has more than one entry.  retain_graph: keep what was saved,
    so that backward can run again.  create_graph: record the gradients themselves.

    Errors: RuntimeError for a loss without a graph, a released graph, or data edited since the forward."""
    for step in walk(*_start(loss, gradient, retain_graph, create_graph), every=False):
        _deliver(step, type(loss))


def _start(loss: Any, gradient: Any, retain_graph: bool | None, create_graph: bool) -> tuple[Any, bool, bool]:
    seeds = {_node_of(loss): _seed(loss, gradient, create_graph)}
    return seeds, create_graph if retain_graph is None else retain_graph, create_graph


def _deliver(step: Step, tensor_class: type) -> None:
    """Add to ``.grad``, which never shares memory with anything that a rule returned."""
    extras, gradient = step.node.extras, step.gradient
    if extras is None or not extras.keeps_grad:
        return
    with extras.lock:  # leaves may be shared by threads
        so_far = extras.grad
        if so_far is None:
            extras.grad = _own(gradient, tensor_class)
        elif isinstance(gradient, Traced) or so_far._node is not None:
            with enable_grad():
                extras.grad = so_far + gradient
        else:
            so_far._data = module_of(gradient).asarray(so_far._data + gradient)


def grad(
    outputs: Any, inputs: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> Any:
    """dL/d(input) for each of `inputs`, returned instead of added to ``.grad``.

    One input gives one tensor, several (a list, a generator) give a list.  Inputs may be intermediates too.

    Errors: RuntimeError naming an input that the outputs do not depend on.

    >>> import tinygrad_attn as ta
    >>> x = ta.Tensor(3.0, requires_grad=True)
    >>> first = ta.grad(x * x * x, x, create_graph=True)
    >>> first.item(), ta.grad(first, x).item()
    (27.0, 18.0)
    """
    many_out, many_in = (isinstance(x, Iterable) and not hasattr(x, "dtype") for x in (outputs, inputs))
    outs = list(outputs) if many_out else [outputs]
    ins = list(inputs) if many_in else [inputs]
    given = list(gradient) if many_out and gradient is not None else [gradient] * len(outs)
    if len(given) != len(outs):
        raise ValueError(f"grad: expected one gradient for each of {len(outs)} outputs, got {len(given)}")
    seeds: dict[Node, Any] = {}
    for out, seed in zip(outs, given):
        node, value = _node_of(out), _seed(out, seed, create_graph)
        seeds[node] = seeds[node] + value if node in seeds else value
    for i, x in enumerate(ins):
        if not isinstance(x, Traced) or x._node is None:
            raise RuntimeError(
                f"grad: input {i} ({_called(x)}) does not require a gradient; make it with requires_grad=True"
            )
    retain = create_graph if retain_graph is None else retain_graph
    found = gradients_at(seeds, {x._node for x in ins}, retain, create_graph)
    for i, x in enumerate(ins):
        if x._node not in found:
            raise RuntimeError(
                f"grad: the outputs do not depend on input {i} ({_called(x)}); leave it out, or check the forward pass"
            )
    owned = [_own(found[x._node], type(outs[0])) for x in ins]
    return owned if many_in else owned[0]


def _own(gradient: Any, tensor_class: type) -> Any:
    """A tensor with a copy of `gradient`, which may be the seed or another tensor's gradient too."""
    if isinstance(gradient, Traced):
        with enable_grad():
            return astype(gradient, gradient._data.dtype)
    made: Any = object.__new__(tensor_class)
    made._data, made._node = gradient.copy(), None
    return made


def _node_of(loss: Any) -> Node:
    if not isinstance(loss, Traced):
        raise TypeError(f"backward: expected a Tensor, got {type(loss).__name__}")
    if loss._node is None:
        raise RuntimeError(
            "backward: this tensor has no graph: nothing it was made from has requires_grad=True, "
            "or it was made under no_grad, or detached"
        )
    return loss._node


def _seed(loss: Any, gradient: Any, create_graph: bool) -> Any:
    """dL/d(loss): ones for a single entry, else what the caller gives, in the loss's shape and dtype."""
    data = loss._data
    if gradient is None:
        if data.size != 1:
            raise RuntimeError(
                f"backward on a tensor of shape {tuple(data.shape)} needs its gradient: write "
                f"loss.sum().backward(), or loss.backward(gradient) with a gradient of that shape\n"
                f"  of {loss._node}"
            )
        value = module_of(data).ones(data.shape, dtype=data.dtype)
    else:
        value = constant(plain(gradient), data)
        shape = tuple(getattr(value, "shape", ()))
        if shape != tuple(data.shape):
            raise ValueError(
                f"backward: expected a gradient of shape {tuple(data.shape)}, got {shape}\n  of {loss._node}"
            )
        value = module_of(data).array(value, dtype=data.dtype, copy=True)
    if not create_graph:
        return value
    if isinstance(gradient, Traced):
        return gradient if gradient._data.dtype == data.dtype else astype(gradient, data.dtype)
    made = object.__new__(type(loss))
    made._data, made._node = value, None
    return made


def _called(x: Any) -> str:
    """A tensor in an error message: its name, or its shape and the line that made it."""
    name = getattr(x, "name", None)
    if name or not isinstance(x, Traced):
        return f"{name!r}" if name else type(x).__name__
    return f"shape {tuple(x._data.shape)}" + ("" if x._node is None else f", {x._node}")
