"""The same weights, rows and schedule in a PyTorch loop: the same loss curve."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from peers.gpt_torch import optimizer_of, with_weights_of  # noqa: E402 (needs torch)

from tinygrad_attn.optim import warmup_cosine  # noqa: E402
from tinygrad_attn.train.loop import Trainer  # noqa: E402
from tinygrad_attn.train.settings import preset, task_of  # noqa: E402
from tinygrad_attn.train.workers import Threads  # noqa: E402


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("task", ["copy", "text"])
def test_loss_curves_agree_for_200_steps(dtype: str, tolerance: float, workers: int, task: str) -> None:
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 2, "batch": 8}
    if task == "text":
        sizes["context"] = 32
    s, data = task_of(preset(task, **sizes, steps=200, eval_every=1000, dtype=dtype))
    trainer = Trainer(s, data, Threads(workers))
    model = with_weights_of(trainer.model)
    optimizer = optimizer_of(model, s.lr, s.weight_decay)
    theirs = []
    for step in range(s.steps):
        for group in optimizer.param_groups:
            group["lr"] = warmup_cosine(step, s.steps, s.lr, s.warmup, s.floor * s.lr)
        tokens, targets = (torch.from_numpy(np.ascontiguousarray(part)) for part in data.rows(step * s.batch, s.batch))
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        # (torch.nn.utils.clip_grad_norm_ divides by norm + 1e-6, which shows from the tenth digit on)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        for grad in grads:
            grad *= min(1.0, s.clip / norm.item())
        optimizer.step()
        theirs.append(loss.item())
    ours = [report.loss for report in trainer.steps()]
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    assert ours[-1] < 0.9 * ours[0]
