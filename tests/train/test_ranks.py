"""Training over MPI, with a real mpirun: every N gives the same training, and nothing that happens to a rank loses it.

python -m pytest -m mpi"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_attn.probe import read_history
from tinygrad_attn.train.checkpoint import load
from tinygrad_attn.train.rundir import RunDirectory

MISSING = "mpirun" if shutil.which("mpirun") is None else "mpi4py" if importlib.util.find_spec("mpi4py") is None else ""
pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is not installed"),
    pytest.mark.skipif(os.name != "posix", reason="signals"),
]
SMALL = ["--d-model", "8", "--n-heads", "1", "--n-layers", "1", "--batch", "6", "--dropout", "0.1", "--warmup", "2"]


def open_mpi() -> bool:
    return "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout


def mpirun(ranks: int, *command: str, **popen: Any) -> subprocess.Popen[str]:
    """`ranks` processes of this Python, more than there are cores, one BLAS thread each."""
    root = ["--allow-run-as-root", "--oversubscribe"] if open_mpi() else []
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    python = [sys.executable, *command]
    return subprocess.Popen(["mpirun", *root, "-n", str(ranks), *python], text=True, env=os.environ | one, **popen)


def train(ranks: int, folder: Path, *flags: str, **popen: Any) -> subprocess.Popen[str]:
    command = ["-m", "tinygrad_attn", "train", "copy", *SMALL, "--out", str(folder), *flags]
    return mpirun(ranks, *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **popen)


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=120)
    return said


def results(folder: Path) -> tuple[list[tuple[Any, ...]], dict[str, np.ndarray]]:
    directory = RunDirectory(folder)
    last = directory.last()
    assert last is not None
    return [(row["step"], row["loss"], row["norm"]) for row in directory.measured()], load(last)[0]


# ---------------------------------------------------------------------------- the same training

CURVES = """
import json, sys
import numpy as np
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.ranks import world
from tinygrad_attn.train.settings import preset, task_of

ranks, curves = world(asked=True), {}
small = dict(d_model=16, n_heads=2, n_layers=2, batch=9, steps=100, dropout=0.1, warmup=5, eval_every=50, lr=3e-3)
for name, task, dtype in json.loads(sys.argv[2]):
    trainer = Trainer(*task_of(preset(task, dtype=dtype, **small)), ranks)
    ranks.follow_first(trainer.optimizer)
    reports = list(trainer.steps())
    held_out = [[r.evaluation.loss, r.evaluation.accuracy] for r in reports if r.evaluation]
    weights = np.concatenate([p.numpy().ravel() for p in trainer.model.parameters()])
    everyone = ranks.comm.allgather(weights.tobytes())
    assert all(theirs == everyone[0] for theirs in everyone), "the ranks' weights have parted"
    losses, norms = [r.loss for r in reports], [float(r.norm) for r in reports]
    curves[name] = {"losses": losses, "norms": norms, "held_out": held_out, "weights": weights.tolist()}
if ranks.number == 0:
    open(sys.argv[1], "w").write(json.dumps(curves))
"""


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """100 steps with dropout by 1, 2 and 4 ranks: float32 twice, float64 once."""
    folder, found = tmp_path_factory.mktemp("curves"), {}
    jobs = [("float32", "agreement", "float32"), ("again", "agreement", "float32"), ("float64", "agreement", "float64")]
    for ranks in (1, 2, 4):
        path = folder / f"{ranks}.json"
        assert mpirun(ranks, "-c", CURVES, str(path), json.dumps(jobs)).wait(timeout=120) == 0
        found[ranks] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("ranks", [2, 4])
def test_any_number_of_ranks_gives_the_same_training(
    curves: dict[int, dict[str, Any]], ranks: int, dtype: str, tolerance: float
) -> None:
    alone, together = curves[1][dtype], curves[ranks][dtype]
    np.testing.assert_allclose(together["losses"], alone["losses"], rtol=tolerance, atol=0)
    np.testing.assert_allclose(np.array(together["held_out"])[:, 0], np.array(alone["held_out"])[:, 0], rtol=tolerance)
    np.testing.assert_allclose(
        together["norms"], alone["norms"], rtol=100 * tolerance
    )  # AdamW would hide a wrong factor
    np.testing.assert_allclose(together["weights"], alone["weights"], rtol=0, atol=1e4 * tolerance)
    assert alone["losses"][-1] < 0.5 * alone["losses"][0]  # it does train


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_at_a_fixed_number_it_repeats_bit_for_bit(curves: dict[int, dict[str, Any]], ranks: int) -> None:
    assert curves[ranks]["again"] == curves[ranks]["float32"]


def test_one_rank_is_as_a_process_alone(curves: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    code = CURVES.replace("world(asked=True)", "None").replace("    ranks.follow_first(trainer.optimizer)\n", "")
    code = code.replace("ranks.comm.allgather(weights.tobytes())", "[0]").replace("if ranks.number == 0", "if True")
    jobs = json.dumps([("float32", "agreement", "float32")])
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "alone.json"), jobs], check=True)
    assert json.loads((tmp_path / "alone.json").read_text())["float32"] == curves[1]["float32"]


DEVICE = """
import sys
sys.path.insert(0, sys.argv[1])
import strict_device
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.ranks import world
from tinygrad_attn.train.settings import preset, task_of

strict_device.register()
ranks, losses = world(asked=True), {}
for device in ("cpu", "strict"):
    settings = preset("copy", d_model=8, n_heads=2, n_layers=1, batch=5, steps=4, dropout=0.1, eval_every=2)
    trainer = Trainer(*task_of(settings), ranks, device)
    ranks.follow_first(trainer.optimizer)
    losses[device] = [(r.loss, r.evaluation and r.evaluation.loss) for r in trainer.steps() if not ranks.agreed(False, r.norm)]
for a, b in zip(losses["cpu"], losses["strict"], strict=True):
    assert abs(a[0] - b[0]) < 1e-6 and a[1] == b[1] or abs(a[1] - b[1]) < 1e-6, (a, b)
assert len(losses["cpu"]) == 4
"""


def test_sums_of_another_device_go_through_the_host() -> None:
    """As on a GPU whose MPI cannot read its memory: the stand-in of tests/strict_device.py refuses all but copies."""
    assert mpirun(2, "-c", DEVICE, str(Path(__file__).parents[1])).wait(timeout=120) == 0


# ---------------------------------------------------------------------------- stopping and going on


def test_a_run_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    """Stopped by SIGTERM (as a scheduler does) with 3 ranks, finished by 2 with a thread each more: same batches."""
    # (2,000 steps: the signal takes its time to reach all ranks, and on an idle machine 300 were over before it came)
    flags = ["--steps", "2000", "--save-every", "5000", "--eval-every", "5000", "--dtype", "float64"]
    assert "2 worker(s)" in finished(train(2, tmp_path / "whole", *flags))
    process = train(3, tmp_path / "parts", *flags)
    wait_for_lines(tmp_path / "parts", process, 20)
    process.send_signal(signal.SIGTERM)
    finished(process)
    directory = RunDirectory(tmp_path / "parts")
    last = directory.last()
    assert process.returncode != 0 and last is not None  # stopped where all ranks were, with a checkpoint
    step = load(last)[1]["step"]
    assert 20 <= step == directory.measured()[-1]["step"] < 2000
    said = finished(train(2, tmp_path / "parts", "--resume", "--workers", "2"))
    assert f"4 worker(s), on from step {step}" in " ".join(said.split())
    (rows, weights), (whole_rows, whole_weights) = results(tmp_path / "parts"), results(tmp_path / "whole")
    np.testing.assert_allclose(rows, whole_rows, rtol=1e-9)
    for name in weights:
        np.testing.assert_allclose(weights[name], whole_weights[name], rtol=1e-5, atol=1e-8)


def test_kill_of_a_rank_at_random_moments(tmp_path: Path) -> None:
    """kill -9 of one of two ranks, three times: the job ends with an error, the last checkpoint is whole, and in the end
    the run equals one that nobody disturbed, bit for bit."""
    flags = ["--steps", "200", "--save-every", "3", "--eval-every", "50"]
    assert train(2, tmp_path / "whole", *flags).wait(timeout=120) == 0
    rng, kills, folder = random.Random(int(time.time())), 0, tmp_path / "killed"
    while kills < 3:
        resume = ["--resume"] if (folder / "run.json").exists() else []
        process = train(2, folder, *flags, *resume)
        wait_for_lines(folder, process, 1)
        time.sleep(rng.uniform(0.0, 0.3))
        victim = rng.choice(children(process.pid))
        os.kill(victim, signal.SIGKILL)
        finished(process)
        if process.returncode == 0:
            break
        kills += 1
        for path in RunDirectory(folder).saved():
            load(path)
        assert not any(alive(pid) for pid in children(process.pid))
    assert kills, "the run ended before it could be killed"
    assert train(2, folder, *flags, "--resume").wait(timeout=120) == 0
    (rows, weights), (whole_rows, whole_weights) = results(folder), results(tmp_path / "whole")
    assert rows == whole_rows
    for name in weights:
        np.testing.assert_array_equal(weights[name], whole_weights[name])


def wait_for_lines(folder: Path, process: subprocess.Popen[str], more: int) -> None:
    path = folder / "metrics.jsonl"

    def lines() -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    first, deadline = lines(), time.monotonic() + 60
    while lines() < first + more and process.poll() is None:
        assert time.monotonic() < deadline, "no step was made"
        time.sleep(0.003)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# ---------------------------------------------------------------------------- wrong use: a message, and no work


@pytest.mark.parametrize(
    "ranks, flags, message",
    [
        (4, ["--batch", "3"], "4 workers cannot share 3 rows; take fewer workers or ranks"),
        (2, ["--workers", "4"], "8 workers cannot share 6 rows"),
        (2, ["--workers", "0"], "--workers: expected at least 1, got 0"),
        (2, ["--resume"], "has no run.json"),
        (2, [":", "-n", "1", sys.executable, "-m", "tinygrad_attn", "train", "copy", *SMALL, "--seed", "1"],
         "ranks disagree: seed 0 on rank 0 and 1 on rank 2; start all of them alike"),
    ],
)  # fmt: skip
def test_ranks_that_cannot_work_together(tmp_path: Path, ranks: int, flags: list[str], message: str) -> None:
    process = train(ranks, tmp_path / "run", *flags)
    said = finished(process)
    assert process.returncode == 2 and said.count("tinygrad-attn train: ") == 1 and message in said
    assert not (tmp_path / "run" / "run.json").exists()


def test_meters_read_the_rows_of_rank_0(tmp_path: Path) -> None:
    process = train(2, tmp_path, "--steps", "4", "--meters", "2")
    assert "Saturation" in finished(process) and process.returncode == 0
    rows = read_history(tmp_path / "meters.jsonl")
    assert [(row["step"], row["rows"]) for row in rows] == [(0, 3 * 15), (2, 3 * 15)]  # (a first token has no choice)


def test_mixed_versions_stop_at_the_start(tmp_path: Path) -> None:
    other = (
        "import tinygrad_attn as t; t.__version__ = '9.9'; from tinygrad_attn.cli import main; raise SystemExit(main())"
    )
    more = [":", "-n", "1", sys.executable, "-c", other, "train", "copy", *SMALL]
    process = train(1, tmp_path / "run", *more)
    said = finished(process)
    assert process.returncode == 2 and "ranks disagree: tinygrad_attn '0.1.0 (" in said and "and '9.9 (" in said
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_launcher_of_another_mpi_is_noticed(tmp_path: Path) -> None:
    """As with srun and no PMI between it and the MPI library: each process would think that it is alone."""
    started = os.environ | {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}
    command = [sys.executable, "-m", "tinygrad_attn", "train", "copy", "--out", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, env=started)
    assert process.returncode == 2 and "4 processes were started together, but MPI sees 1" in process.stderr
    assert not list(tmp_path.iterdir())


FAILS = """
import sys
from tinygrad_attn.cli import main
from tinygrad_attn.train import loop
from tinygrad_attn.train.ranks import launched

if launched()[1] == 1:
    def broken(self):
        raise MemoryError("no memory for the held-out rows")
    loop.Trainer.evaluate = broken
sys.exit(main())
"""


def test_an_error_on_one_rank_ends_the_job(tmp_path: Path) -> None:
    flags = [
        "train",
        "copy",
        *SMALL,
        "--steps",
        "50",
        "--eval-every",
        "10",
        "--save-every",
        "4",
        "--out",
        str(tmp_path),
    ]
    process = mpirun(2, "-c", FAILS, *flags, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = finished(process)
    assert process.returncode not in (0, None) and "rank 1: no memory for the held-out rows" in said
    last = RunDirectory(tmp_path).last()
    assert last is not None and load(last)[1]["step"] == 8
