"""SGD, Adam, AdamW: each is a rule for one stretch of the flat buffer; `Optimizer` does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np

from ..autodiff.arrays import Array, to_host
from ..autodiff.tensor import Tensor
from ..nn.module import check_state
from .flat import FlatParameters, Params, listed

_BLOCK = 1 << 15  # entries: values, gradient, moments and scratch of a block fit the L2 cache together


class Optimizer:
    """Base class: unique parameters, a learning rate that may be changed between steps, per-parameter state.

    A parameter given twice is stepped once.  One whose ``.grad`` is None is left alone, decay included.

    Errors: ValueError for no parameters (an exhausted generator), TypeError for what is no float leaf."""

    moments: tuple[str, ...] = ()  # names of the running means, each as large as the parameters

    def __init__(self, params: Params, lr: float) -> None:
        self.params = listed(params, type(self).__name__)
        if not self.params:
            raise ValueError("an optimiser needs at least one parameter; an exhausted generator gives none")
        for p in self.params:
            if not isinstance(p, Tensor) or not p.is_leaf or p.dtype.kind != "f":
                called = (
                    getattr(p, "name", None) or f"{getattr(p, 'dtype', type(p).__name__)} {getattr(p, 'shape', '')}"
                )
                raise TypeError(f"an optimiser takes leaves: float tensors made with requires_grad=True; got {called}")
            if p.dtype.char == "e":
                raise TypeError(
                    "an optimiser takes float32 or float64: in float16 its small constants are 0, and it divides by 0"
                )
        if not lr >= 0.0:
            raise ValueError(f"expected a learning rate of at least 0, got {lr}")
        self.lr = lr
        alike: dict[object, list[Tensor]] = {}
        for p in self.params:
            alike.setdefault((p.dtype, p.device, self.decays(p)), []).append(p)
        self.groups = [FlatParameters(group, self.moments) for group in alike.values()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.lr}, {sum(p.size for p in self.params):,} parameters)"

    def decays(self, p: Tensor) -> bool:
        """Does weight decay apply to this parameter?"""
        return True

    @property
    def gradients(self) -> list[Array]:
        """The flat gradient of each group of parameters."""
        return [group.gradient for group in self.groups]

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.groups:
            self._advance(group, group.gather())

    def step_flat(self) -> None:
        """One update of all parameters from ``self.gradients``, which the caller has filled (as train/ does)."""
        for group in self.groups:
            self._advance(group, list(range(len(group.params))))

    def _advance(self, group: FlatParameters, numbers: list[int]) -> None:
        """Update the parameters of these numbers; neighbours that have taken equally many steps go together."""
        group.adopt()
        taken = group.steps_taken  # (number - rank in the list is the same for neighbours)
        for _, run in groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], taken[pair[1]])):
            together = [number for _, number in run]
            first, last = together[0], together[-1]
            self._update_blocks(group, group.places[first].start, group.places[last].stop, taken[first] + 1)
            for i in together:
                taken[i] += 1
                group.params[i]._edited()

    def _update_blocks(self, group: FlatParameters, start: int, stop: int, t: int) -> None:
        """Step number t of the parameters between two places of the buffer."""
        block = _BLOCK if group.module is np else max(stop - start, 1)
        decayed = self.decays(group.params[0])
        for first in range(start, stop, block):
            part = slice(first, min(first + block, stop))
            moments = {name: array[part] for name, array in group.moments.items()}
            self._update(group.values[part], group.gradient[part], moments, t, decayed)

    def _update(self, w: Array, g: Array, moments: Mapping[str, Array], t: int, decayed: bool) -> None:
        """Change w (and the moments) in place: step number t, gradient g; g may be used as scratch."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget the gradients: ``.grad`` is None again."""
        for p in self.params:
            p.grad = None

    # ------------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Learning rate, steps taken and moments, by group: ``lr``, ``0.steps``, ``0.m``, ``0.v`` and so on."""
        found: dict[str, np.ndarray] = {"lr": np.asarray(float(self.lr))}
        for i, group in enumerate(self.groups):
            found[f"{i}.steps"] = np.asarray(group.steps_taken, np.int64)
            found.update({f"{i}.{name}": np.array(to_host(array)) for name, array in group.moments.items()})
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``; nothing is changed unless everything fits.

        Errors: KeyError for missing or unexpected names, ValueError for a wrong shape."""
        check_state("optimiser state", {name: array.shape for name, array in self.state_dict().items()}, state)
        self.lr = float(state["lr"])
        for i, group in enumerate(self.groups):
            group.steps_taken = [int(n) for n in state[f"{i}.steps"]]
            for name, array in group.moments.items():
                array[...] = group.module.asarray(state[f"{i}.{name}"])


class SGD(Optimizer):
    """w -= lr (g + weight_decay w), with momentum: v = momentum v + g, w -= lr v.

    >>> import tinygrad_attn as ta
    >>> w = ta.Tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward(); ta.optim.SGD([w], lr=0.25).step(); w.numpy()
    array([0.5], dtype=float32)
    """

    def __init__(self, params: Params, lr: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
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
        params: Params,
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
        self, params: Params, lr: float = 1e-3, *, weight_decay: float = 0.01, matrices_only: bool = False, **rest: Any
    ) -> None:
        self.matrices_only = matrices_only
        super().__init__(params, lr, weight_decay=weight_decay, **rest)

    def decays(self, p: Tensor) -> bool:
        return not self.matrices_only or p.ndim >= 2
