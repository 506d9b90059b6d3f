"""A run's folder: its settings, what it measured, its checkpoints; one run at a time.

run.json                          settings and versions, written once
metrics.jsonl                     one line per step: step, loss, norm, lr, tokens, and held-out results when measured
checkpoints/step-00000200.safetensors   the last K
checkpoints/best.safetensors      the one with the lowest held-out loss
lock                              held while a run writes here; the system frees it when the process ends, however
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..files.atomic import write_text
from ..files.errors import UserError, as_user_error
from ..files.jsonl import keep_lines, whole_lines
from ..files.lock import locked
from .checkpoint import CheckpointError, restore, save
from .loop import Report, Trainer
from .settings import Settings, UnknownSettings


class RunError(UserError):
    """A folder that cannot be used as asked, and what to do instead."""


class RunDirectory:
    """The folder of one run.  Reading needs no lock; everything that writes is called inside ``locked()``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    # ------------------------------------------------------------------------ one run at a time

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Errors: UserError while another run writes here, or where nothing can be written."""
        new = not self.path.exists()
        with locked(self.path, "run"):
            self.checkpoints.mkdir(exist_ok=True)
            for left in self.checkpoints.glob("*.part"):  # a killed run's unfinished file
                left.unlink()
            try:
                yield
            finally:
                if new and not self.exists:  # no run began, for a setting was wrong: leave no empty folder behind
                    with suppress(OSError):
                        self.checkpoints.rmdir()
                        (self.path / "lock").unlink()
                        self.path.rmdir()

    # ------------------------------------------------------------------------ beginning and going on

    @property
    def exists(self) -> bool:
        return (self.path / "run.json").exists()

    def begin(self, settings: Settings, workers: int = 1) -> None:
        """Write run.json.  workers: how many share a batch; another number gives the same to rounding only.

        Errors: RunError where a run is here already."""
        if self.exists:
            raise RunError(
                f"{self.path} holds a run already; go on with it by --resume, or choose another folder with --out"
            )
        versions = {"tinygrad_attn": __version__, "numpy": np.__version__, "python": platform.python_version()}
        text = json.dumps({"settings": settings.to_dict(), "workers": workers, "versions": versions}, indent=2) + "\n"
        with as_user_error(OSError, doing=f"cannot write to {self.path}"):
            write_text(self.path / "run.json", text)

    def settings(self) -> Settings:
        """The settings of the run that is here.  Errors: RunError where there is none, or it is not ours."""
        return self._begun()[0]

    def workers(self) -> int:
        """How many workers it began with.  Errors: as for `settings`."""
        return self._begun()[1]

    def _begun(self) -> tuple[Settings, int]:
        try:
            written = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
            return Settings.from_dict(written["settings"]), int(written.get("workers", 1))
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(f"no run in {self.path}: it has no run.json; begin one with `tinygrad-attn train`") from None
        except UnknownSettings as error:
            by = written.get("versions", {}).get("tinygrad_attn", "another version")
            ways = "use that version, or train again in another folder with --out"
            raise RunError(f"{self.path / 'run.json'}: {error}; written by tinygrad_attn {by}: {ways}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else error
            ways = "put a copy of it back, or train again in another folder with --out"
            raise RunError(f"{self.path / 'run.json'} is damaged: {why}; {ways}") from None

    def resume(self, trainer: Trainer) -> None:
        """Put `trainer` where the last checkpoint stood (where none was due yet: at the start), and forget what was
        measured after it.  Errors: CheckpointError, with the way out; nothing is changed then."""
        last = self.last()
        if last is not None:
            try:
                restore(trainer, last)
            except CheckpointError as error:
                raise CheckpointError(f"{error}\nTo go on from the checkpoint before it, move {last} away") from error
        elif rows := [row for row in self.measured() if row["step"] > trainer.settings.save_every]:
            raise CheckpointError(
                f"{self.checkpoints}: no checkpoint, though step {rows[-1]['step']} was reached; put them back, "
                "or train again in another folder with --out"
            )
        # (a line that a kill cut short goes, too)
        keep_lines(self.path / "metrics.jsonl", lambda row: row["step"] <= trainer.step)

    # ------------------------------------------------------------------------ measurements

    @contextmanager
    def metrics(self) -> Iterator[Any]:
        """``write(report, tokens_per_second)``: adds a line to metrics.jsonl."""
        file = open(self.path / "metrics.jsonl", "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed below)

        def write(report: Report, tokens_per_second: float) -> dict[str, Any]:
            row = {"step": report.step, "loss": report.loss, "norm": float(report.norm), "lr": report.lr}
            row["tokens_per_second"] = round(tokens_per_second, 1)
            if report.evaluation is not None:
                row.update(held_out_loss=report.evaluation.loss, held_out_accuracy=report.evaluation.accuracy)
            with as_user_error(OSError, doing=f"cannot write {file.name}", remedy="the last checkpoint is whole"):
                file.write(json.dumps(row) + "\n")
            return row

        try:
            yield write
        finally:
            with suppress(OSError):  # a full disk has been told already
                file.close()

    def measured(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        path = self.path / "metrics.jsonl"
        return [row for _, row in whole_lines(path)] if path.exists() else []

    # ------------------------------------------------------------------------ checkpoints

    def saved(self) -> list[Path]:
        """Checkpoints by step, the last one last."""
        return sorted(self.checkpoints.glob("step-*.safetensors"))

    def last(self) -> Path | None:
        return max(self.saved(), default=None)

    def best(self) -> Path | None:
        path = self.checkpoints / "best.safetensors"
        return path if path.exists() else self.last()

    def save(self, trainer: Trainer, is_best: bool = False) -> None:
        """A checkpoint of this step; only then are those before the last `keep` removed.

        The best one is written first: were the run killed between the two, it would resume from this step and never
        learn that this was the best.

        Errors: CheckpointError when the disk does not take it; the old ones stay."""
        if is_best:
            save(trainer, self.checkpoints / "best.safetensors")
        save(trainer, self.checkpoints / f"step-{trainer.step:08d}.safetensors")
        for old in self.saved()[: -trainer.settings.keep]:
            old.unlink()
