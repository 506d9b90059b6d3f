"""Optimisers: SGD, Adam, AdamW; and clipping."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .backend import module_of, to_host
from .tensor import Tensor


class Optimizer:
    """Base class: unique parameters, a learning rate that may be changed between steps, a step count.

    A parameter given twice is stepped once.  A parameter whose ``.grad`` is None is left alone."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        self.params = list({id(p): p for p in params}.values())
        if not self.params:
            raise ValueError("an optimiser needs at least one parameter; an exhausted generator gives none")
        for p in self.params:
            if not isinstance(p, Tensor) or not p.is_leaf:
                raise TypeError("an optimiser takes leaves (tensors made with requires_grad=True)")
        self.lr = lr
        self.steps = 0
        self.state: list[dict[str, Any]] = [{} for _ in self.params]

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        self.steps += 1
        for p, state in zip(self.params, self.state):
            if p.grad is not None:
                p._replace(self._updated(p, p._data, p.grad._data, state).astype(p.dtype, copy=False))

    def _updated(self, p: Tensor, w: Any, g: Any, state: dict[str, Any]) -> Any:
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The step count, the learning rate and the moments, as NumPy arrays."""
        arrays = {
            f"{i}.{name}": to_host(value).copy() for i, s in enumerate(self.state) for name, value in s.items() if name != "t"
        }
        counts = {f"{i}.t": s["t"] for i, s in enumerate(self.state) if "t" in s}
        return {"steps": self.steps, "lr": self.lr, **counts, **arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.steps, self.lr = int(state["steps"]), float(state["lr"])
        self.state = [{} for _ in self.params]
        for key, value in state.items():
            if key not in ("steps", "lr"):
                place, name = key.split(".")
                p = self.params[int(place)]
                self.state[int(place)][name] = int(value) if name == "t" else module_of(p._data).asarray(value)


class SGD(Optimizer):
    """w -= lr (g + weight_decay w), with momentum: v = momentum v + g, w -= lr v.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward(); ta.optim.SGD([w], lr=0.25).step(); w.numpy()
    array([0.5], dtype=float32)
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(params, lr)
        self.momentum, self.weight_decay = momentum, weight_decay

    def _updated(self, p: Tensor, w: Any, g: Any, state: dict[str, Any]) -> Any:
        if self.weight_decay:
            g = g + float(self.weight_decay) * w
        if self.momentum:
            g = state["v"] = g if "v" not in state else self.momentum * state["v"] + g
        return w - float(self.lr) * g


class Adam(Optimizer):
    """Adam: steps of the mean gradient over its root mean square, both bias-corrected.

        m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
        w -= lr  m/(1 - b1^t)  /  (sqrt(v/(1 - b2^t)) + eps)

    weight_decay adds to the gradient (L2); AdamW decays the weights themselves.
    Source: Kingma and Ba 2015, Adam, algorithm 1.
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def _updated(self, p: Tensor, w: Any, g: Any, state: dict[str, Any]) -> Any:
        b1, b2 = self.betas
        lr = float(self.lr)
        if self.weight_decay and self.decoupled and self.decays(p):
            w = w * (1.0 - lr * self.weight_decay)
        elif self.weight_decay and not self.decoupled:
            g = g + float(self.weight_decay) * w
        t = state["t"] = state.get("t", 0) + 1
        m = state["m"] = (1.0 - b1) * g if t == 1 else b1 * state["m"] + (1.0 - b1) * g
        v = state["v"] = (1.0 - b2) * g * g if t == 1 else b2 * state["v"] + (1.0 - b2) * g * g
        root = module_of(v).sqrt(v * (1.0 / (1.0 - b2**t))) + self.eps
        return w - (lr / (1.0 - b1**t)) * m / root

    def decays(self, p: Tensor) -> bool:
        return True


class AdamW(Adam):
    """Adam with decoupled weight decay, w *= 1 - lr weight_decay, by default on every parameter;
    ``matrices_only=True`` leaves gains and biases (1-D) alone.
    Source: Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization, algorithm 2."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        weight_decay: float = 0.01,
        matrices_only: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__(params, lr, weight_decay=weight_decay, **rest)
        self.matrices_only = matrices_only

    def decays(self, p: Tensor) -> bool:
        return not self.matrices_only or p.ndim >= 2


def clip_grad_norm(params: Iterable[Tensor], max_norm: float, norm_type: float = 2) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`; gives the norm before, a
    0-d tensor that stays on the device (``float(norm)`` waits for a GPU).

    A norm that is not finite is returned and the gradients are left as they are: test it before step().

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([3.0, 4.0], requires_grad=True); w.grad = [3.0, 4.0]
    >>> ta.optim.clip_grad_norm([w], 1.0), w.grad
    (Tensor(5.), Tensor([0.6 0.8]))
    """
    params = list(params)
    if not params:
        warnings.warn("clip_grad_norm got no parameters: an exhausted generator?", stacklevel=2)
    grads = [p.grad for p in params if p.grad is not None]
    if not grads:
        return Tensor(0.0)
    module = module_of(grads[0]._data)
    norms = module.stack([module.linalg.norm(g._data.reshape(-1), norm_type) for g in grads])
    total = module.asarray(module.linalg.norm(norms, norm_type))
    clips = module.isfinite(total) & (total > max_norm)
    if module is not np or clips:  # asking would wait for a GPU: there the factor may be 1
        factor = module.where(clips, max_norm / module.where(clips, total, 1.0), 1.0)
        for g in grads:
            g._data = g._data * factor.astype(g.dtype)
    return Tensor(total)
