"""What a run is made of: one frozen record, kept in its run.json, from which everything else follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ..nn import MiniGPT
from ..optim import AdamW
from ..tasks.letters import AgreementRows, Copy, Induction, Reverse, Task
from ..tasks.text import Text


class UnknownSettings(ValueError):
    """Settings that this version does not have: a run of another version."""


def _said(default: Any, meaning: str, least: int | None = None) -> Any:
    return field(default=default, metadata={"meaning": meaning, "least": least})


@dataclass(frozen=True)
class Settings:
    """Settings of one training run.  Two runs with equal settings (and workers) are equal bit for bit on one machine.

    Those that have a meaning written beside them are flags of ``tinygrad-attn train``.  After warmup the learning rate
    falls as half a cosine, to floor * lr."""

    task: str
    steps: int = _said(500, "how many steps", 1)
    batch: int = _said(64, "rows in a step, over all workers", 1)
    lr: float = _said(1e-3, "highest learning rate of AdamW")
    seed: int = _said(0, "of the task, the weights, the rows and dropout")
    accumulate: int = _said(1, "parts in which a worker takes its share, to save memory", 1)
    warmup: int = _said(20, "steps until the highest learning rate", 0)
    floor: float = field(default=0.1, metadata={"least": 0})
    weight_decay: float = _said(0.1, "decay of the matrices", 0)
    clip: float = _said(1.0, "largest gradient norm")
    dropout: float = _said(0.0, "rate of dropout")
    context: int = _said(64, "characters in a row of `text`", 1)  # the other tasks' rows have a length of their own
    d_model: int = _said(64, "width of the model", 1)
    n_heads: int = _said(4, "attention heads in a layer", 1)
    n_layers: int = _said(2, "layers", 1)
    dtype: str = _said("float32", "float32 or float64")
    text: str | None = _said(None, "train `text` on this UTF-8 file (default: Python's own language reference)")
    text_digest: str | None = None  # so that a run is never continued on another text
    eval_every: int = _said(100, "steps between looks at held-out rows", 1)
    save_every: int = _said(100, "steps between checkpoints", 1)
    keep: int = _said(3, "how many checkpoints to keep, besides the best", 1)

    def __post_init__(self) -> None:
        """Errors: ValueError naming the setting."""
        for each in fields(self):
            least, value = each.metadata.get("least"), getattr(self, each.name)
            if least is not None and not value >= least:  # (NaN neither)
                raise ValueError(f"{each.name}: expected at least {least}, got {value}")
        for right, message in (
            (self.task in TASKS, f"task: expected one of {', '.join(TASKS)}, got {self.task!r}"),
            (0.0 <= self.dropout < 1.0, f"dropout: expected a rate from 0 to below 1, got {self.dropout}"),
            (0.0 < self.lr < float("inf"), f"expected a positive, finite lr, got {self.lr}"),
            (self.clip > 0.0, f"expected a positive clip, got {self.clip}"),
            (self.dtype in ("float32", "float64"), f"dtype: expected float32 or float64, got {self.dtype!r}"),
            (self.text is None or self.task == "text", f"text: only the task `text` reads a file, not {self.task!r}"),
            (0 <= self.seed < 2**63, f"seed: expected a whole number from 0 to 2^63 - 1, got {self.seed}"),
        ):
            if not right:
                raise ValueError(message)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """Errors: UnknownSettings naming them."""
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise UnknownSettings(f"unknown settings: {', '.join(unknown)}")
        return cls(**values)


TASKS = {"agreement": AgreementRows, "copy": Copy, "reverse": Reverse, "induction": Induction, "text": Text}

# What each task needs to be learnt, where it differs from the defaults above.
PRESETS: dict[str, dict[str, Any]] = {
    "agreement": {"steps": 200, "n_layers": 1},
    "copy": {"steps": 300},
    "reverse": {"steps": 300},
    "induction": {"steps": 1500, "n_heads": 2, "lr": 3e-3, "warmup": 50, "weight_decay": 0.0},
    "text": {"steps": 2000, "batch": 16, "n_layers": 4, "warmup": 100, "eval_every": 200, "save_every": 200},
}


def preset(task: str, **changes: Any) -> Settings:
    """The settings that suit a task, with some changed.

    >>> preset("copy", seed=3).steps
    300
    """
    if task not in TASKS:
        raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {task!r}")
    return Settings(task, **{**PRESETS[task], **changes})


def task_of(settings: Settings) -> tuple[Settings, Task]:
    """The task, and the settings with what only the task knows filled in.

    Errors: OSError where a text cannot be read; ValueError where it is not the one that the settings were made with,
    or where a context was asked for that the task's rows do not have."""
    if settings.task != "text":
        task = TASKS[settings.task](settings.seed)
        if settings.context not in (Settings.context, task.context):
            raise ValueError(f"context: rows of {settings.task} have {task.context} tokens, got {settings.context}")
        return replace(settings, context=task.context), task
    text = Text(settings.seed, settings.context, settings.text)
    if settings.text_digest not in (None, text.digest):
        raise ValueError(f"{text.called}: not the text that this run was trained on (its contents differ)")
    return replace(settings, text_digest=text.digest), text


def model_of(settings: Settings, task: Task) -> MiniGPT:
    """The untrained model."""
    model = MiniGPT(
        len(task.vocabulary), task.context, settings.d_model, settings.n_heads, settings.n_layers,
        seed=settings.seed, dropout=settings.dropout,
    )  # fmt: skip
    return model if settings.dtype == "float32" else model.astype(settings.dtype)


def optimizer_of(settings: Settings, model: MiniGPT) -> AdamW:
    """AdamW that decays matrices only: a gain or a bias has no reason to be small."""
    return AdamW(model.parameters(), settings.lr, weight_decay=settings.weight_decay, matrices_only=True)
