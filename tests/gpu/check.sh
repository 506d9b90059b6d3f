#!/usr/bin/env bash
# Does everything work on a GPU, and how fast?  Under five minutes, on a machine with an NVIDIA GPU and
#     pip install '.[cuda13]'     (or .[cuda12]; with PyTorch for CUDA installed, its timings stand beside ours)
# Prints a table, writes runs/gpu_check.json, exits non-zero where something is wrong.
#     tests/gpu/check.sh [--quick] [--json FILE]
# Without a GPU the same checks run with --device cpu, or --device strict (the stand-in of strict_device.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
exec timeout --foreground 300 "${PYTHON:-python3}" tests/gpu/check.py "$@"
