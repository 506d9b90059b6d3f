"""Checkpoints: one safetensors file holds everything that a run needs to go on, and it is whole or not there.

    tensors     model.<parameter>, optimizer.<group>.<moment>
    metadata    kind, state (JSON: step, best loss, settings, the seed that all randomness follows from), sha256

Written to a temporary file in the same folder, synced, renamed, and the folder synced: whatever moment a power
cut or a kill chooses, the old checkpoint or the new one is there, whole.  The digest covers names, dtypes, shapes,
numbers and state, so a flipped bit is found before anything is used.  Reading runs nothing: there is no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..files.errors import UserError
from ..files.tensors import read_tensors, write_tensors
from ..nn import MiniGPT
from ..optim import Optimizer
from .loop import Trainer
from .settings import Settings

KIND = "tinygrad_attn.checkpoint"
FORMAT = 1


class CheckpointError(UserError):
    """A checkpoint that cannot be used or written, and what to do about it."""


def save(trainer: Trainer, path: Path) -> None:
    """Write where `trainer` stands.  Errors: CheckpointError where it cannot be written; older files stay whole."""
    tensors = {f"model.{name}": array for name, array in trainer.model.state_dict().items()}
    tensors.update({f"optimizer.{name}": array for name, array in trainer.optimizer.state_dict().items()})
    state = {
        "format": FORMAT,
        "step": trainer.step,
        "best": trainer.best,
        "settings": trainer.settings.to_dict(),
        # Rows and dropout are functions of (seed, step, position): these two are the whole random state.
        "random": {"seed": trainer.settings.seed, "step": trainer.step},
    }
    text = json.dumps(state)
    try:
        write_tensors(path, tensors, {"kind": KIND, "state": text, "sha256": _digest(tensors, text)})
    except OSError as error:
        raise CheckpointError(
            f"cannot save {path}: {error.strerror or error}; earlier checkpoints are whole"
        ) from error


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the state of a checkpoint, both verified.

    Errors: CheckpointError that says whether the file is missing, truncated, damaged, or something else."""
    try:
        tensors, metadata = read_tensors(path)
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint {path}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"damaged: {error}") from error
    if metadata.get("kind") != KIND:
        raise CheckpointError(f"{path}: not a checkpoint of a training run (kind {metadata.get('kind')!r})")
    text = metadata.get("state", "")
    if metadata.get("sha256") != _digest(tensors, text):
        raise CheckpointError(f"{path}: damaged: its contents do not match its checksum")
    state = json.loads(text)
    if state.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: its format is {state.get('format')}, this version of tinygrad_attn reads {FORMAT}: use the "
            "version that run.json names, or train again in another folder with --out"
        )
    return tensors, state


def restore(trainer: Trainer, path: Path) -> None:
    """Put `trainer` where the checkpoint's stood.

    Errors: CheckpointError for an unusable file, or one of a run with other settings; nothing is changed then."""
    tensors, state = load(path)
    try:
        settings = Settings.from_dict(state["settings"])
    except ValueError as error:
        raise CheckpointError(f"{path}: from another version of tinygrad_attn: {error}") from error
    if settings != trainer.settings:
        ours, theirs = trainer.settings.to_dict(), settings.to_dict()
        differ = [f"{name} {theirs[name]!r} (here {ours[name]!r})" for name in ours if ours[name] != theirs[name]]
        raise CheckpointError(f"{path}: from a run with other settings: {', '.join(differ)}")
    fit(trainer.model, tensors, path, trainer.optimizer)
    trainer.step, trainer.best = int(state["step"]), float(state["best"])


def fit(model: MiniGPT, tensors: Mapping[str, np.ndarray], path: Path, optimizer: Optimizer | None = None) -> None:
    """Put the tensors of the checkpoint at `path` into a model, and into its optimiser.

    Errors: CheckpointError where they do not fit; the part that they do not fit is not changed."""
    parts: dict[str, MiniGPT | Optimizer | None] = {"model.": model, "optimizer.": optimizer}
    try:
        for prefix, part in parts.items():
            if part is not None:
                part.load_state_dict({n.removeprefix(prefix): a for n, a in tensors.items() if n.startswith(prefix)})
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: does not fit the model: {error.args[0]}") from error


def _digest(tensors: Mapping[str, np.ndarray], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()
