"""Train the PyTorch model with the settings, first weights, rows and schedule of a run, and judge it on the same rows.

python tests/peers/train_torch.py runs/text
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from gpt_torch import optimizer_of, with_weights_of

from tinygrad_attn.optim import warmup_cosine
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import model_of, task_of


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path)
    s, task = task_of(RunDirectory(parser.parse_args().run).settings())
    if s.dropout:
        raise SystemExit("this peer has no dropout")
    model = with_weights_of(model_of(s, task))
    optimizer = optimizer_of(model, s.lr, s.weight_decay)
    for step in range(s.steps):
        for group in optimizer.param_groups:
            group["lr"] = warmup_cosine(step, s.steps, s.lr, s.warmup, s.floor * s.lr)
        optimizer.zero_grad()
        model(*_tensors(task.rows(step * s.batch, s.batch))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip)
        optimizer.step()
        if (step + 1) % s.eval_every == 0 or step + 1 == s.steps:
            with torch.no_grad():
                print(f"step {step + 1}: held out {model(*_tensors(task.held_out())).item():.4f}", flush=True)


def _tensors(batch: tuple[np.ndarray, np.ndarray]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(part)) for part in batch]


if __name__ == "__main__":
    main()
