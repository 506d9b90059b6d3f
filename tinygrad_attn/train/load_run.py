"""A trained model out of its run's folder."""

from __future__ import annotations

from pathlib import Path

from ..nn import MiniGPT
from ..tasks.letters import Task
from .checkpoint import CheckpointError, fit, load
from .rundir import RunDirectory
from .settings import model_of, task_of


def trained(folder: Path, best: bool = True) -> tuple[MiniGPT, Task]:
    """The model of a run's best (or last) checkpoint, and its task.

    Errors: RunError where there is no run, CheckpointError where no checkpoint can be used, ValueError where the
    text is not the one that the run was trained on."""
    directory = RunDirectory(folder)
    settings, task = task_of(directory.settings())
    path = directory.best() if best else directory.last()
    if path is None:
        raise CheckpointError(f"no checkpoint in {folder} yet; let the run go on with --resume")
    try:
        tensors, _ = load(path)
    except CheckpointError as error:
        way = "--last takes the last checkpoint" if best else "without --last it is the best checkpoint"
        raise CheckpointError(f"{error}; {way}") from error
    model = model_of(settings, task)
    fit(model, tensors, path)
    model.eval()
    return model, task
