"""What a node keeps: for each rule the values that it named, and nothing else.

Which names those are is known when the operation is defined, so each function here returns a function
that takes the values of one call, by position, and returns the ones to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .graph import Node, Op

Call = Callable[..., Any]


def picker(op: Op, names: Sequence[str]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What a rule asked for, as a function of one call's values: (*arguments, out, saved)."""
    values_are = (*op.arguments, "out", "saved")
    # What may be kept as it lies: the operands (an array of the user's was copied when it met a Tensor), out and saved.
    # A setting is the user's, and is copied.
    ours = {*(range(len(op.arguments)) if op.variadic else op.traced), len(op.arguments), len(op.arguments) + 1}
    fetch: list[tuple[Call, int]] = []
    for name in names:
        if name in values_are:
            i = values_are.index(name)
            fetch.append((_itself if i in ours else _own, i))
        else:  # "x_shape": checked when the op was defined
            fetch.append((_shape_of, values_are.index(name.removesuffix("_shape"))))
    if not fetch:
        return lambda values: ()
    if len(fetch) == 1:
        get, i = fetch[0]
        return (lambda values: (values[i],)) if get is _itself else (lambda values: (get(values[i]),))
    if len(fetch) == 2:  # written out: 0.1 us less
        (get, i), (get_, j) = fetch
        return lambda values: (get(values[i]), get_(values[j]))
    return lambda values: tuple([get(values[i]) for get, i in fetch])


def _itself(value: Any) -> Any:
    return value


def _shape_of(value: Any) -> tuple[int, ...]:
    return getattr(value, "shape", ())


_FIXED = frozenset({int, float, bool, str, slice, type(None)})


def _own(setting: Any) -> Any:
    """A copy of an index, a mask, a condition: the user may fill that array anew before backward."""
    if type(setting) in _FIXED:
        return setting
    if isinstance(setting, (list, tuple)):
        return type(setting)([_own(part) for part in setting])
    return setting.copy() if hasattr(setting, "copy") else setting


def binary_keeper(op: Op) -> Call:
    """What the two rules of a binary operation keep, for those parents p and q that want a gradient."""
    if op.needs == ((), ()):
        return lambda x, y, out, p, q: (() if p is not None else None, () if q is not None else None)
    if op.needs == (("y",), ("x",)):
        return lambda x, y, out, p, q: ((y,) if p is not None else None, (x,) if q is not None else None)
    pick_x, pick_y = picker(op, op.needs[0]), picker(op, op.needs[1])

    def keep(x: Any, y: Any, out: Any, p: Node | None, q: Node | None) -> tuple[Any, ...]:
        values = (x, y, out)
        return (pick_x(values) if p is not None else None, pick_y(values) if q is not None else None)

    return keep


def keeper(op: Op) -> Callable[[Sequence[Any], tuple[Node | None, ...]], tuple[Any, ...]]:
    """The same for any operation.  A joint rule has one dict, with what its reference takes as well."""
    if op.joint is not None:
        names = tuple(dict.fromkeys((*op.needs[0], *(op.arguments if op.reference is not None else ()))))
        pick = picker(op, names)
        return lambda values, parents: (dict(zip(names, pick(values))),)
    picks = [picker(op, need) for need in op.needs]
    if len(picks) == 1:
        pick = picks[0]
        return lambda values, parents: (pick(values),)
    return lambda values, parents: tuple(
        [None if parent is None else pick(values) for parent, pick in zip(parents, picks)]
    )
