"""SGD, Adam, AdamW: each is a rule for one stretch of the flat buffer; `Optimizer` does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..autodiff.arrays import Array, to_host
from ..autodiff.tensor import Tensor
from .flat import FlatParameters, grouped, listed

_BLOCK = 1 << 15  # entries: values, gradient, moments and scratch of a block fit the L2 cache together


class Optimizer:
    """Base class: unique parameters, a learning rate that may be changed between steps, per-parameter state.

    A parameter given twice is stepped once.  One whose ``.grad`` is None is left alone, decay included.

    Errors: ValueError for no parameters (an exhausted generator), TypeError for what is no float leaf."""

    moments: tuple[str, ...] = ()  # names of the running means, each as large as the parameters

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        self.params = list({id(p): p for p in listed(params, type(self).__name__)}.values())
        if not self.params:
            raise ValueError("an optimiser needs at least one parameter; an exhausted generator gives none")
        for p in self.params:
            if not isinstance(p, Tensor) or not p.is_leaf or p.dtype.kind != "f":
                raise TypeError("an optimiser takes leaves: float tensors made with requires_grad=True")
        if not lr >= 0.0:
            raise ValueError(f"expected a learning rate of at least 0, got {lr}")
        self.lr = lr
        self.groups = [FlatParameters(group) for group in grouped(self.params, self.decays)]
        self.gradients: list[Array] = [g.module.zeros_like(g.values) for g in self.groups]
        self.state = [{name: g.module.zeros_like(g.values) for name in self.moments} for g in self.groups]
        self.steps_taken = [[0] * len(g.params) for g in self.groups]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.lr}, {sum(p.size for p in self.params):,} parameters)"

    def decays(self, p: Tensor) -> bool:
        """Does weight decay apply to this parameter?"""
        return True

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group, gradient, state, taken in zip(self.groups, self.gradients, self.state, self.steps_taken):
            group.adopt()
            present = group.gathered(gradient)
            self._update_runs(group, gradient, state, taken, present)

    def step_flat(self) -> None:
        """One update from ``self.gradients``, which the caller has filled (training does, see train/)."""
        for group, gradient, state, taken in zip(self.groups, self.gradients, self.state, self.steps_taken):
            group.adopt()
            self._update_runs(group, gradient, state, taken, list(range(len(taken))))

    def _update_runs(
        self, group: FlatParameters, gradient: Array, state: dict[str, Array], taken: list[int], present: list[int]
    ) -> None:
        """Update neighbours that have taken equally many steps together, block by block."""
        for first, last in _runs(present, taken):
            stretch = slice(group.places[first].start, group.places[last].stop)
            block = _BLOCK if group.module is np else max(stretch.stop - stretch.start, 1)
            for start in range(stretch.start, stretch.stop, block):
                part = slice(start, min(start + block, stretch.stop))
                moments = {name: array[part] for name, array in state.items()}
                decayed = self.decays(group.params[first])
                self._update(group.values[part], gradient[part], moments, taken[first] + 1, decayed)
            for i in range(first, last + 1):
                taken[i] += 1
                group.params[i]._edited()

    def _update(self, w: Array, g: Array, moments: Mapping[str, Array], t: int, decayed: bool) -> None:
        """Change w (and the moments) in place: step number t, gradient g; g may be used as scratch."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget the gradients: ``.grad`` is None again."""
        for p in self.params:
            p.grad = None

    # ------------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Learning rate, steps taken and moments as NumPy arrays: ``lr``, ``0.steps``, ``0.m``, ``0.v`` and so on by group."""
        found: dict[str, np.ndarray] = {"lr": np.asarray(float(self.lr))}
        for i, (state, taken) in enumerate(zip(self.state, self.steps_taken)):
            found[f"{i}.steps"] = np.asarray(taken, np.int64)
            found.update({f"{i}.{name}": np.array(to_host(array)) for name, array in state.items()})
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``; nothing is changed unless everything fits.

        Errors: KeyError for missing or unexpected names, ValueError for a wrong shape."""
        ours = self.state_dict()
        if ours.keys() != state.keys():
            missing, extra = sorted(ours.keys() - state.keys()), sorted(state.keys() - ours.keys())
            raise KeyError(f"optimiser state: missing {missing or 'nothing'}; unexpected {extra or 'nothing'}")
        for name, array in ours.items():
            if np.shape(state[name]) != array.shape:
                raise ValueError(f"optimiser state {name}: expected shape {array.shape}, got {np.shape(state[name])}")
        self.lr = float(state["lr"])
        for i, group in enumerate(self.groups):
            self.steps_taken[i] = [int(n) for n in state[f"{i}.steps"]]
            for name in self.moments:
                self.state[i][name][...] = group.module.asarray(state[f"{i}.{name}"])


def _runs(present: list[int], taken: list[int]) -> list[tuple[int, int]]:
    """[first, last] of the stretches of neighbouring numbers in `present` with equal `taken`."""
    runs: list[tuple[int, int]] = []
    for i in present:
        if runs and runs[-1][1] == i - 1 and taken[i - 1] == taken[i]:
            runs[-1] = (runs[-1][0], i)
        else:
            runs.append((i, i))
    return runs


class SGD(Optimizer):
    """w -= lr (g + weight_decay w), with momentum: v = momentum v + g, w -= lr v.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward(); ta.optim.SGD([w], lr=0.25).step(); w.numpy()
    array([0.5], dtype=float32)
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        self.momentum, self.weight_decay = float(momentum), float(weight_decay)
        self.moments = ("v",) if momentum else ()
        super().__init__(params, lr)

    def _update(self, w: Array, g: Array, moments: Mapping[str, Array], t: int, decayed: bool) -> None:
        if self.weight_decay:
            g += self.weight_decay * w
        if self.momentum:
            v = moments["v"]
            v *= self.momentum
            v += g
            g = v
        w -= float(self.lr) * g


class Adam(Optimizer):
    """Steps of the mean gradient over its root mean square, both corrected for their start at 0:

        m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
        w -= lr  m/(1 - b1^t)  /  (sqrt(v/(1 - b2^t)) + eps)

    weight_decay adds weight_decay w to the gradient (L2); AdamW decays the weights themselves.
    Source: Kingma and Ba 2015, Adam, algorithm 1.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> (3 * w).sum().backward(); ta.optim.Adam([w], lr=0.25).step(); w.numpy()
    array([0.75], dtype=float32)
    """

    moments = ("m", "v")
    decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not all(0.0 <= b < 1.0 for b in betas):
            raise ValueError(f"Adam: expected betas from 0 to below 1, got {betas}")
        self.betas, self.eps, self.weight_decay = (float(betas[0]), float(betas[1])), float(eps), float(weight_decay)
        super().__init__(params, lr)

    def _update(self, w: Array, g: Array, moments: Mapping[str, Array], t: int, decayed: bool) -> None:
        m, v, lr = moments["m"], moments["v"], float(self.lr)
        b1, b2 = self.betas
        if self.weight_decay and decayed:
            if self.decoupled:
                w *= 1.0 - lr * self.weight_decay
            else:
                g += self.weight_decay * w
        m *= b1
        m += (1.0 - b1) * g
        v *= b2
        g *= g
        g *= 1.0 - b2
        v += g
        root = v**0.5
        root *= (1.0 - b2**t) ** -0.5
        root += self.eps
        step = m / root
        step *= lr / (1.0 - b1**t)
        w -= step


class AdamW(Adam):
    """Adam with decoupled weight decay: w *= 1 - lr weight_decay before each step, the gradient unchanged.
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
        self.matrices_only = matrices_only
        super().__init__(params, lr, weight_decay=weight_decay, **rest)

    def decays(self, p: Tensor) -> bool:
        return not self.matrices_only or p.ndim >= 2
