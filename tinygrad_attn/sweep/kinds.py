"""What one cell of a sweep can be.  Each kind is a record: its fields are the keys of the sweep file, run() measures.

    successor   the lab's task (lab/successor.py): does one attention learn who follows whom?
    gradients   what is left of the score gradients (lab/vanishing.py)
    train       what ``tinygrad-attn train`` trains, without a folder
    lab         a whole experiment of the lab, and how many of its sentences hold

A cell depends on its settings alone, so it gives the same on every worker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from ..lab.catalogue import EXPERIMENTS
from ..lab.successor import LR, UNIT, Finder, Successor
from ..lab.successor import train as train_finder
from ..lab.vanishing import vanishing
from ..train.loop import Trainer
from ..train.settings import Settings, preset, task_of

Results = dict[str, float]


def _from(least: int, default: int) -> Any:
    """A field that is a whole number of at least `least`."""
    return field(default=default, metadata={"least": least})


def _one_of(choices: Iterable[str], default: Any = MISSING) -> Any:
    return field(default=default, metadata={"choices": tuple(choices)})


class Kind:
    """A frozen dataclass.  Making one checks the values: ValueError that names the key."""

    def __post_init__(self) -> None:
        for key in fields(self):  # type: ignore[arg-type]
            value, least, choices = getattr(self, key.name), key.metadata.get("least"), key.metadata.get("choices")
            if least is not None and value < least:
                raise ValueError(f"{key.name}: expected at least {least}, got {value}")
            if choices is not None and value not in choices:
                raise ValueError(f"{key.name}: expected one of {', '.join(choices)}, got {value!r}")

    def run(self) -> Results:
        raise NotImplementedError


@dataclass(frozen=True)
class SuccessorCell(Kind):
    """scale: divide the scores by sqrt(d_k)?  tie: which of W_Q, W_K, W_V are one matrix."""

    d_k: int = _from(1, 16)
    d_v: int = _from(1, 16)
    scale: bool = True
    scorer: str = _one_of(("dot", "additive", "none"), "dot")
    tie: str = _one_of(("none", "qk", "kv", "qkv"), "none")
    heads: int = _from(1, 1)
    hops: int = _from(1, 1)
    sigma: float = UNIT
    steps: int = _from(1, 100)
    lr: float = LR
    seed: int = _from(0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tie in ("kv", "qkv") and self.d_k != self.d_v:
            raise ValueError(f"tie: {self.tie!r} needs d_v equal to d_k, got {self.d_v} and {self.d_k}")

    def run(self) -> Results:
        scorer = "scaled" if self.scorer == "dot" and self.scale else self.scorer
        tie = None if self.tie == "none" else self.tie
        finder = Finder(
            self.seed, self.d_k, self.d_v, scorer=scorer, tie=tie, heads=self.heads, hops=self.hops, sigma=self.sigma
        )
        last = train_finder(finder, Successor(self.seed, self.hops), self.seed, self.steps, self.lr)[-1]
        return {"loss": last.loss, "accuracy": last.accuracy, "stuck": last.stuck}


@dataclass(frozen=True)
class GradientsCell(Kind):
    """rows: of scores, 16 keys each."""

    d_k: int = _from(1, 16)
    scale: bool = True
    rows: int = _from(1, 2000)
    seed: int = _from(0, 0)

    def run(self) -> Results:
        samples = vanishing([self.d_k], self.rows, draws=1, seed=self.seed)
        (row,) = (sample.row() for sample in samples if sample.scaled == self.scale)
        names = ("score_std", "entropy_over_log_n", "softmax_jacobian_norm", "score_gradient_row_norm", "dead_rows")
        return {name: row[name] for name in names}


@dataclass(frozen=True)
class LabCell(Kind):
    """repeats: its number of seeds."""

    experiment: str = _one_of(EXPERIMENTS)
    repeats: int = _from(1, 2)

    def run(self) -> Results:
        verdicts = EXPERIMENTS[self.experiment](self.repeats).verdicts
        return {"sentences": len(verdicts), "hold": sum(verdict.holds for verdict in verdicts)}


class TrainCell(Kind):
    """The settings of ``tinygrad-attn train`` that do not concern its folder."""

    def __init__(self, **values: Any) -> None:
        if "task" not in values:
            raise ValueError("task: run = 'train' needs one, such as 'copy'")
        self.settings: Settings = preset(**values)

    def run(self) -> Results:
        trainer = Trainer(*task_of(self.settings))
        *_, last = trainer.steps()
        assert last.evaluation is not None  # after the last step there always is one
        held_out = last.evaluation
        return {
            "loss": last.loss,
            "held_out_loss": held_out.loss,
            "best_held_out_loss": trainer.best,
            "held_out_accuracy": held_out.accuracy,
        }


KINDS: dict[str, type[Kind]] = {
    "successor": SuccessorCell,
    "gradients": GradientsCell,
    "train": TrainCell,
    "lab": LabCell,
}
_OF_THE_FOLDER = ("text_digest", "save_every", "keep")


def keys_of(run: str) -> dict[str, str]:
    """The keys that a kind takes, each with its type as it is written: "int", "float", "str" or "bool"."""
    record: Any = Settings if run == "train" else KINDS[run]
    return {f.name: str(f.type).removesuffix(" | None") for f in fields(record) if f.name not in _OF_THE_FOLDER}
