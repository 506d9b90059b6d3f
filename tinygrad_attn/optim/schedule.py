"""Learning rates over time."""

from __future__ import annotations

import math


def warmup_cosine(step: int, total: int, peak: float, warmup: int = 0, floor: float = 0.0) -> float:
    """The learning rate of step 0, 1, ...: up in `warmup` equal stairs to `peak`, then half a cosine to `floor`.

    Never 0 at step 0; after `total` steps it stays at `floor`.
    Source: Loshchilov and Hutter 2017, SGDR, section 3 (one period).

    >>> [round(warmup_cosine(s, 6, 1.0, warmup=2), 2) for s in range(7)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15, 0.0]
    """
    if step >= total:
        return floor
    if step < warmup:
        return peak * (step + 1) / warmup
    return floor + 0.5 * (peak - floor) * (1.0 + math.cos(math.pi * (step - warmup) / (total - warmup)))
