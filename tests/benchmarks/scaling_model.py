"""A model on paper of data-parallel training: what N ranks gain, from a few measured numbers.

With N ranks of r rows each, and M bytes of gradients:

    step(N, r) = compute(r) + update + allreduce(N, M)
    compute(r) = a + b r                       forward and backward, measured alone at two sizes
    allreduce  = 2 log2(N) latency + 2 (N-1)/N M / bandwidth + (N-1)/N M / adding      (Rabenseifner 2004)

latency and bandwidth come from messages between two ranks, `adding` from NumPy.  Assumed: all ranks are equally
fast, the network is not shared, a ring of ranks follows the nodes, nothing overlaps.  Not in it: stragglers.  Each
step waits for the slowest rank; with step times that scatter by s, the slowest of N is about s sqrt(2 ln N) late
(N = 512 and s = 2 %: 7 %).  Efficiency is step(1, r) / step(N, r) with r rows on every rank, so the global batch
grows with N; the last column keeps the global batch, which is only possible while it has a row for every rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tinygrad_attn.show.table import Column, Table, number, percent

# context, d_model, heads, layers, rows in a batch
CONFIGURATIONS = {"seed": (64, 64, 4, 4, 16), "nano": (256, 128, 4, 4, 8), "wide": (256, 384, 6, 6, 4)}
NETWORKS = {"10 Gbit Ethernet": (30e-6, 1.1e9), "100 Gbit InfiniBand": (2e-6, 11e9)}  # latency s, bytes/s: assumed


def allreduce(ranks: int, size: float, latency: float, bandwidth: float, adding: float) -> float:
    """Seconds."""
    share_of_others = (ranks - 1) / ranks
    return 2 * math.log2(ranks) * latency + share_of_others * size * (2 / bandwidth + 1 / adding)


def modelled(name: str, found: dict[str, Any], ranks: int, rows: float, latency: float, bandwidth: float) -> float:
    """step(ranks, rows on each), seconds."""
    one, batch = found["configurations"][name], CONFIGURATIONS[name][-1]
    seconds = one["seconds"]
    for_a_row = (seconds["rows all"] - seconds["rows half"]) / (batch - batch // 2)
    for_a_row = min(for_a_row, seconds["rows all"] / batch)  # no rows take no less than no time
    compute = seconds["rows all"] + for_a_row * (rows - batch)
    return compute + seconds["update"] + allreduce(ranks, one["bytes"], latency, bandwidth, found["adding"])


def efficiencies(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    networks = {"shared memory (measured)": (found["latency"], found["bandwidth"]), **NETWORKS}
    for name, one in found["configurations"].items():
        batch = CONFIGURATIONS[name][-1]
        alone = modelled(name, found, 1, batch, 0.0, 1.0)
        for network, speed in networks.items():
            row = {"name": name, "network": network, "bytes": one["bytes"]}
            row |= {str(n): alone / modelled(name, found, n, batch, *speed) for n in (8, 64, 512)}
            row["same"] = alone / modelled(name, found, 8, batch / 8, *speed) / 8 if batch >= 8 else None
            yield row


def table(found: dict[str, Any]) -> Table:
    return Table(
        "Efficiency by the model: rows on each rank as in the configuration; last column: the same global batch",
        [
            Column("name", "name", left=True),
            Column(
                "bytes", "bytes sent by\na rank a step", lambda size: f"{2 * size / 1e6:.1f} MB"
            ),  # (N-1)/N is nearly 1
            Column("network", "network", left=True),
            *[Column(str(n), f"{n} ranks", percent) for n in (8, 64, 512)],
            Column("same", "8 ranks,\nsame batch", lambda share: "-" if share is None else percent(share)),
        ],
        list(efficiencies(found)),
        [
            f"Measured here: latency {found['latency'] * 1e6:.1f} us, bandwidth {number(found['bandwidth'] / 1e9)} GB/s, "
            f"adding {number(found['adding'] / 1e9)} GB/s.",
            "Assumed: "
            + "; ".join(f"{name} {s * 1e6:g} us, {b / 1e9:g} GB/s" for name, (s, b) in NETWORKS.items())
            + ".",
        ],
    )
