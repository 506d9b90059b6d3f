"""The same loop on a device that refuses to mix or to wait unasked (strict_device.py stands in for a GPU)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import strict_device
from strict_device import counting

from tinygrad_attn.train.loop import LOOK_EVERY, Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import preset, task_of
from tinygrad_attn.train.workers import Threads

strict_device.register()


def test_the_loop_runs_unchanged_and_waits_every_20_steps() -> None:
    settings = preset(
        "copy", d_model=16, n_heads=2, n_layers=1, batch=6, steps=LOOK_EVERY, eval_every=LOOK_EVERY, dropout=0.1
    )
    reports = {}
    for device in ("cpu", "strict"):
        trainer = Trainer(*task_of(settings), Threads(2), device)
        steps = trainer.steps()
        with counting() as waits:
            early = [next(steps) for _ in range(LOOK_EVERY - 1)]
        assert waits == []
        reports[device] = [*early, *steps]
        assert {p.device for p in trainer.model.parameters()} == {device}
    for ours, right in zip(reports["strict"], reports["cpu"], strict=True):
        np.testing.assert_allclose([ours.loss, float(ours.norm)], [right.loss, float(right.norm)], rtol=2e-4)
    a, b = (reports[device][-1].evaluation for device in ("strict", "cpu"))
    assert a is not None and b is not None and a.accuracy == b.accuracy
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-4)


def test_a_run_reads_its_numbers_every_20_steps_and_before_a_checkpoint(tmp_path: Path) -> None:
    settings = preset("copy", d_model=16, n_heads=2, n_layers=1, batch=2, steps=45, eval_every=100, save_every=30)
    directory, read_at = RunDirectory(tmp_path), []
    with directory.locked():
        trainer = Trainer(*task_of(settings), Threads(1), "strict")
        directory.begin(trainer.settings)
        train_in(directory, trainer, lambda row: read_at.append(trainer.step))
    assert read_at == [20] * 20 + [30] * 10 + [40] * 10 + [45] * 5
    assert [row["step"] for row in directory.measured()] == list(range(1, 46))
