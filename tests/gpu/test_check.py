"""The script for GPU machines runs, on the stand-in device; it says so when there is no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("check.py")


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("device", ["strict", "cpu"])
def test_all_checks_pass(device: str, tmp_path: Path) -> None:
    written = tmp_path / "found.json"
    done = check("--device", device, "--quick", "--json", str(written))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(written.read_text())
    assert found["ok"] and found["device"] == device and len(found["checks"]) == 8
    assert "8 passed, 0 failed" in done.stdout and "no wait in a training step   ok" in done.stdout


def test_a_failing_check_gives_exit_code_1(tmp_path: Path) -> None:
    written = tmp_path / "found.json"
    broken = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import check, same; same.weights = None; "
    run = broken + f"sys.exit(check.main(['--device', 'cpu', '--quick', '--json', {str(written)!r}]))"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "failed: the same seed's weights" in done.stdout
    assert not json.loads(written.read_text())["ok"]


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['cupy'] = None; import runpy; sys.argv = ['check.py']; "
    run = hidden + f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 2 and "CuPy is not installed" in done.stderr and "--device strict" in done.stderr
