"""watch: keep value and gradient of named intermediates while a block runs, and change nothing about the run."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from threading import get_ident
from typing import Any

from ..autodiff.graph import calling_line
from ..autodiff.mode import current, watching
from ..autodiff.origin import describe
from ..autodiff.tensor import Tensor
from ..nn.module import Module
from .capture import BEFORE_SOFTMAX, PER_HEAD, AttentionCall, Capture
from .seen import Seen

_EXPLAINS = frozenset({"scaled", "masked", "weights"})  # kept beside the scores, so that their zeros are told apart


class watch:
    """``with watch(model, "*.scores", "*.weights") as seen:`` keeps every visit of matching names.

    what: a Module (then its parameters have names too, and its heads are known) and patterns of names, as in a
    shell: ``*`` is any text, ``?`` any letter; none given means ``"*"`` (without the parameters).  heads: how many
    heads a 3-D array (heads, n, d) has, where no module tells.  dead: a row is dead below this share of what arrived.

    The forward pass must be inside; backward may come later.  The gradients are seen by hooks that return
    nothing: no bit of the run changes.  Watches nest.

    Errors: KeyError at the end of the block when a pattern matched nothing, with near names; RuntimeError when no
    named tensor was made inside at all.

    >>> import tinygrad_attn as ta
    >>> q = ta.Tensor([[1.0, 2.0]], requires_grad=True)
    >>> with watch("scores") as seen:
    ...     out, _ = ta.scaled_dot_product_attention(q, [[1.0, 0.0], [0.0, 1.0]], [[1.0], [3.0]])
    ...     out.sum().backward()
    >>> seen["scores"].value.numpy()
    array([[1., 2.]], dtype=float32)
    """

    def __init__(self, *what: Module | str, heads: int | None = None, dead: float = 1e-3) -> None:
        models = [w for w in what if isinstance(w, Module)]
        patterns = tuple(w for w in what if isinstance(w, str))
        if len(models) > 1 or len(models) + len(patterns) < len(what):
            raise TypeError("watch: expected at most one Module, and patterns of names, such as '*.scores'")
        self._model, self._patterns, self._heads = models[0] if models else None, patterns or ("*",), heads
        self._all = not patterns
        self._matches = lru_cache(None)(
            partial(_is_asked_for, tuple(self._patterns))
        )  # (not self: a watch is no cycle)
        self.seen = Seen(self._patterns, dead)
        self._open: dict[tuple[int, str], AttentionCall] = {}  # (thread, prefix) -> the call that runs there
        self._removers: list[Callable[[], None]] = []

    def __enter__(self) -> Seen:
        self._outer = current().watcher
        self._head_counts = heads_by_path(self._model)
        self._hook_parameters()
        self._switch = watching(self._look)
        self._switch.__enter__()
        return self.seen

    def __exit__(self, kind: Any, *rest: object) -> None:
        self._switch.__exit__()
        del self._switch  # it knows this watch: nothing that was seen waits for the garbage collector
        for remove in self._removers:
            remove()
        self._removers.clear()
        if kind is None:
            for pattern in () if self._all and self.seen.passed else self._patterns:
                if not any(fnmatchcase(path, pattern) for path in self.seen.captures):
                    raise self.seen.missing(pattern)

    # ------------------------------------------------------------------------ looking

    def _look(self, path: str, tensor: Tensor) -> None:
        if self._outer is not None:
            self._outer(path, tensor)
        self.seen.passed[path] = None
        prefix, _, step = path.rpartition(".")
        wanted = self._matches(path)
        if not wanted and not (step in _EXPLAINS and self._explains(prefix)):
            return
        place = get_ident(), prefix
        call = self._open.get(place)
        if call is None or step in call.steps:  # the same step again: the next call
            call = self._open[place] = AttentionCall()
        heads = self._head_counts.get(prefix, self._heads) if step in PER_HEAD else None
        visits = self.seen.captures.setdefault(path, []) if wanted else []
        visit = Capture(path, tensor, call, heads, len(visits), _made_at(tensor))
        call.steps[step] = visit
        visits.append(visit)
        if visit.wants:
            tensor.register_hook(lambda gradient: setattr(visit, "gradient", gradient._data.copy()))

    def _explains(self, prefix: str) -> bool:
        return any(self._matches(f"{prefix}.{step}" if prefix else step) for step in BEFORE_SOFTMAX)

    # ------------------------------------------------------------------------ the model's own names

    def _hook_parameters(self) -> None:
        """A forward pass does not name its parameters, so each backward pass counts as a visit of a parameter."""
        for path, parameter in self._model.named_parameters() if self._model is not None and not self._all else ():
            if self._matches(path) and parameter.requires_grad:
                visits = self.seen.captures.setdefault(path, [])
                visits.append(Capture(path, parameter, AttentionCall(), None, 0, "a parameter"))
                self.seen.passed[path] = None
                self._removers.append(parameter.register_hook(partial(_keep, path, parameter, visits)))


def heads_by_path(model: Module | None) -> dict[str, int]:
    """path of an attention module -> how many heads it has."""
    modules = model.named_modules() if model is not None else ()
    counts = {path: getattr(module, "n_heads", None) for path, module in modules}
    return {path: count for path, count in counts.items() if isinstance(count, int)}


def _keep(path: str, parameter: Tensor, visits: list[Capture], gradient: Tensor) -> None:
    """A parameter's gradient, as the next visit."""
    if visits[-1].gradient is not None:
        visits.append(Capture(path, parameter, AttentionCall(), None, len(visits), "a parameter"))
    visits[-1].gradient = gradient._data.copy()


def _made_at(tensor: Tensor) -> str:
    node = tensor._node
    if node is not None:
        return node.line
    import sys

    return describe(*calling_line(sys._getframe(2)))


def _is_asked_for(patterns: tuple[str, ...], path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
