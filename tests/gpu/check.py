"""The checks for a machine with a GPU: same values as NumPy, same training run, no waiting, and timings.

    python tests/gpu/check.py [--device cuda|strict|cpu] [--quick] [--json FILE]

Exit code 0: all is well.  1: something differs or fails.  2: the device is not there."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # optable, strict_device

import numpy as np

import tinygrad_attn as ta


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda (default), cuda:N, strict or cpu")
    parser.add_argument("--quick", action="store_true", help="small sizes: a test of this script")
    parser.add_argument("--json", type=Path, default=Path("runs/gpu_check.json"), metavar="FILE")
    options = parser.parse_args(arguments)
    if options.device == "strict":
        import strict_device

        strict_device.register()
    try:
        device = ta.ones(1, device=options.device).device
    except (RuntimeError, ValueError) as error:
        print(f"no check was made: {error}", file=sys.stderr)
        print("(the script itself can be tried with --device strict or --device cpu)", file=sys.stderr)
        return 2
    rows = run(device, options.quick)
    failed = [row["check"] for row in rows if not row["ok"]]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"ok": not failed, **machine(device), "checks": rows}, indent=1) + "\n")
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed" + "".join(f"\n  failed: {name}" for name in failed))
    return 1 if failed else 0


def run(device: str, quick: bool) -> list[dict[str, Any]]:
    """Each check gives {"figure": text, ...}; an exception is a failure of that check alone."""
    import same
    import speed

    checks: list[tuple[str, Callable[[str, bool], dict[str, Any]]]] = [
        ("operations, float64", same.operations),
        ("operations, float32", same.operations_float32),
        ("attention against NumPy", same.attention),
        ("the same seed's weights", same.weights),
        ("the same loss curve", same.loss_curve),
        ("no wait in a training step", same.no_wait),
        ("time of a training step", speed.training_step),
        ("time of attention", speed.attention),
    ]
    rows = []
    print(f"device {device}\n{'check':28} {'':5} {'seconds':>8}  figures")
    for name, check in checks:
        started = time.perf_counter()
        row: dict[str, Any] = {"check": name, "ok": True}
        try:
            row |= check(device, quick)
        except Exception as error:
            row |= {"ok": False, "figure": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        row["seconds"] = round(time.perf_counter() - started, 2)
        rows.append(row)
        first, *more = str(row["figure"]).splitlines()
        print(f"{name:28} {'ok' if row['ok'] else 'FAIL':5} {row['seconds']:8.2f}  {first}")
        for line in more:
            print(f"{'':44} {line}")
        sys.stdout.flush()
    return rows


def machine(device: str) -> dict[str, Any]:
    """What the figures depend on."""
    found = {
        "device": device,
        "tinygrad_attn": ta.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    if device.startswith("cuda"):
        import cupy

        number = int(device.partition(":")[2] or 0)
        found["gpu"] = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
        found["cupy"] = cupy.__version__
        found["cuda runtime"] = str(cupy.cuda.runtime.runtimeGetVersion())
    return found


if __name__ == "__main__":
    sys.exit(main())
