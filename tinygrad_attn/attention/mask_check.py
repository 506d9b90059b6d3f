"""Does a mask say what was meant?  Mistakes that run without an error, and teach a model to look ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .checks import broadcasts_to
from .masks import on_host


class MaskFinding(NamedTuple):
    """kind: "empty rows", "wrong axis", "blind to itself", "wrong shape" or "not boolean"; text: what to do about it;
    rows: the indices (..., query) concerned, as tuples."""

    kind: str
    text: str
    rows: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check_mask(mask: Any, scores_shape: tuple[int, ...] | None = None) -> list[MaskFinding]:
    """What looks wrong with a mask (True = may attend) for scores (..., n_q, n_k); nothing found: [].

    empty rows        queries that may see no key: their output is 0
    wrong axis        it fits only transposed, or without its head axis; or it hides queries, not keys
    blind to itself   n_q = n_k and no query may see its own position: shifted by one, or inverted
    wrong shape       it does not broadcast to the scores at all
    not boolean       floats, or integers besides 0 and 1

    scores_shape: default the mask's own shape.  No finding is proof of an error: a decoder's first row
    may be empty on purpose.

    >>> import numpy as np, tinygrad_attn as ta
    >>> print(*ta.check_mask(np.triu(np.ones((3, 3)), 1) == 1), sep="\\n")
    empty rows: 1 of 3 queries may see no key, their output is 0: (2,)
    blind to itself: no query may see its own position; is the mask inverted (True = may attend), or shifted by one?
    """
    mask = on_host(mask)
    if mask.dtype.kind not in "biu" or (mask.dtype.kind != "b" and mask.size and not np.isin(mask, (0, 1)).all()):
        return [
            MaskFinding("not boolean", f"expected booleans (or 0 and 1), got {mask.dtype}; numbers to add are a bias")
        ]
    mask = mask.astype(bool)
    shape = tuple(np.atleast_2d(mask).shape if scores_shape is None else scores_shape)
    if not broadcasts_to(mask.shape, shape):
        return [_misfit(mask.shape, shape)]
    full = np.broadcast_to(mask, shape)
    return [
        finding for look in (_empty_rows, _hides_queries, _looks_like_padding, _blind) for finding in look(full, mask)
    ]


def _misfit(got: tuple[int, ...], shape: tuple[int, ...]) -> MaskFinding:
    """A shape that does not broadcast: would another reading of it?"""
    text = f"a mask {got} does not broadcast to the scores (..., n_q, n_k) = {shape}"
    if len(got) >= 2 and broadcasts_to((*got[:-2], got[-1], got[-2]), shape):
        return MaskFinding(
            "wrong axis", f"{text}, but its transpose does: rows are queries, columns are keys; write mask.mT"
        )
    ways = (
        {"mask[:, None, None, :]": (got[0], 1, 1, *got[1:]), "mask[:, None, :]": (got[0], 1, *got[1:])} if got else {}
    )
    for spelling, padded in ways.items():
        if len(padded) == len(shape) and broadcasts_to(padded, shape):
            return MaskFinding(
                "wrong axis", f"{text}, but {spelling} does: one row of keys (or one mask) per batch entry"
            )
    return MaskFinding("wrong shape", text)


def _empty_rows(full: np.ndarray, mask: np.ndarray) -> list[MaskFinding]:
    empty = ~full.any(axis=-1)
    if not empty.any():
        return []
    rows = tuple(tuple(int(i) for i in place) for place in np.argwhere(empty))
    shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return [
        MaskFinding(
            "empty rows", f"{len(rows)} of {empty.size} queries may see no key, their output is 0: {shown}", rows
        )
    ]


def _hides_queries(full: np.ndarray, mask: np.ndarray) -> list[MaskFinding]:
    """Each row all True or all False, and some of both: padding put on the query axis."""
    some, all_ = full.any(axis=-1), full.all(axis=-1)
    if full.shape[-1] < 2 or not full.any() or (some != all_).any() or all_.all():
        return []
    text = "every row is all True or all False: it hides queries, not keys; padding belongs on the last axis"
    return [MaskFinding("wrong axis", text)]


def _looks_like_padding(full: np.ndarray, mask: np.ndarray) -> list[MaskFinding]:
    """A (B, n_k) mask of keys where B = n_q: it broadcasts, as one row per query."""
    if mask.ndim != 2 or full.ndim < 3 or mask.shape[0] != full.shape[0] or mask.shape[0] < 2:
        return []
    falls_once = (mask[:, 1:] <= mask[:, :-1]).all() and mask[:, 0].all()
    grows = (np.diff(mask.sum(axis=1)) >= 0).all()
    if (
        not falls_once
        or (grows and not mask.all(axis=1).any())
        or np.array_equal(mask, np.tri(*mask.shape, dtype=bool))
    ):
        return []
    spelling = "mask[:, None, :]" if full.ndim == 3 else "mask[:, None, None, :]"
    text = f"reads like lengths of {len(mask)} sequences, but row i is applied to query i; write {spelling}"
    return [MaskFinding("wrong axis", text)]


def _blind(full: np.ndarray, mask: np.ndarray) -> list[MaskFinding]:
    n_q, n_k = full.shape[-2:]
    if n_q != n_k or n_q == 0 or not full.any() or np.diagonal(full, axis1=-2, axis2=-1).any():
        return []
    text = "no query may see its own position; is the mask inverted (True = may attend), or shifted by one?"
    return [MaskFinding("blind to itself", text)]
