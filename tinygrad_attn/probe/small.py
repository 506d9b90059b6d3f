"""Exact small numbers: why does a gradient entry read 0, and how are the others spread?

An entry that reads 0 is one of

    structural   the exact gradient is 0: a masked pair, a constant row
    underflow    the exact gradient is smaller than the smallest number of the dtype
    rounding     the exact gradient could be written down, but a difference or a product lost it
    untold       0, and there was nothing at hand to tell which
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autodiff.arrays import to_host

NONZERO, STRUCTURAL, UNDERFLOW, ROUNDING, UNTOLD = range(5)
KINDS = ("nonzero", "structural", "underflow", "rounding", "untold")


def kinds_of_zero(gradient: Any, log_exact: np.ndarray | None) -> np.ndarray:
    """For each entry one of the kinds above, as int8.  log_exact: log |exact gradient|, -inf where it is 0
    (a logarithm, so that it does not underflow itself); None: zeros stay untold.

    >>> g = np.zeros(3, np.float32)
    >>> [KINDS[k] for k in kinds_of_zero(g, np.array([-np.inf, -200.0, -20.0]))]
    ['structural', 'underflow', 'rounding']
    """
    gradient = to_host(gradient)
    kinds = np.zeros(gradient.shape, np.int8)
    zero = gradient == 0
    if log_exact is None:
        kinds[zero] = UNTOLD
        return kinds
    smallest = np.log(float(np.finfo(gradient.dtype).smallest_subnormal)) - np.log(2.0)  # half of it rounds to 0
    kinds[zero] = np.where(log_exact < smallest, UNDERFLOW, ROUNDING)[zero]
    kinds[zero & (log_exact == -np.inf)] = STRUCTURAL
    return kinds


def log_softmax_gradient(inputs: Any, g: Any) -> np.ndarray:
    """log |dL/d(inputs)| of a softmax over the last axis, exactly enough to never underflow or cancel.

    inputs (..., n): what went into softmax, -inf where hidden.  g (..., n): dL/d(weights).
    log |dL/ds_j| = log p_j + log |h_j - sum_i p_i h_i|,  h = g - g[winner], all in float64.

    >>> np.exp(log_softmax_gradient(np.array([20.0, 0.0]), np.array([1.0, 0.0])))
    array([2.06115361e-09, 2.06115361e-09])
    """
    s, g = to_host(inputs).astype(np.float64), to_host(g).astype(np.float64)
    hidden = s == -np.inf
    top = np.where(np.isfinite(peak := s.max(axis=-1, keepdims=True)), peak, 0.0)
    winner = s.argmax(axis=-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        e = np.exp(s - top)
        log_p = s - top - np.log(e.sum(axis=-1, keepdims=True))
        h = np.where(hidden, 0.0, g - np.take_along_axis(g, winner, -1))
        inner = (np.exp(log_p) * h).sum(axis=-1, keepdims=True)
        log_exact = log_p + np.log(np.abs(h - inner))
    return np.where(hidden | np.isnan(log_exact), -np.inf, log_exact)


@dataclass(frozen=True)
class Spread:
    """How the rows of a gradient (..., rows, n) are spread: row = its Euclidean norm over the last axis."""

    low: float  # the 5 % quantile of the row norms
    median: float
    high: float  # the 95 % quantile
    dead: float  # share of live rows whose norm is below `dead` times what arrived
    rows: int  # rows that could have a gradient
    structural: int  # entries that read 0, by kind
    underflow: int
    rounding: int
    untold: int
    nonfinite: int  # NaN and inf entries; they are in no other figure


def spread(gradient: Any, kinds: np.ndarray, arrived: Any = None, live: Any = None, dead: float = 1e-3) -> Spread:
    """Quantiles, dead rows and the zeros by kind.

    arrived: the norm that a row is compared with (None: the largest row).  live: which rows count (None: all)."""
    g = np.atleast_2d(to_host(gradient)).astype(np.float64)
    finite = np.isfinite(g)
    norms = row_norms(np.where(finite, g, 0.0))
    chosen = np.ones(norms.shape, bool) if live is None else np.broadcast_to(live, norms.shape)
    reference = norms.max(initial=0.0) if arrived is None else np.broadcast_to(arrived, norms.shape)[chosen]
    norms = norms[chosen]
    low, median, high = np.quantile(norms, (0.05, 0.5, 0.95)) if norms.size else (np.nan,) * 3
    share = float((norms <= dead * reference).mean()) if norms.size else 0.0
    counts = np.bincount(kinds[np.isfinite(to_host(gradient))].ravel(), minlength=5)
    _, structural, underflow, rounding, untold = map(int, counts)
    quantiles = float(low), float(median), float(high)
    return Spread(*quantiles, share, norms.size, structural, underflow, rounding, untold, int((~finite).sum()))


def row_norms(g: np.ndarray) -> np.ndarray:
    """The Euclidean norm over the last axis, safe from underflow of the squares.

    >>> row_norms(np.array([[3e-200, 4e-200]]))
    array([5.e-200])
    """
    largest = np.abs(g).max(axis=-1, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    return np.linalg.norm(g / safe[..., None], axis=-1) * largest
