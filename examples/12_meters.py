"""Watch heads saturate while a model trains, and hear of it when one dies.

Per head: entropy over log(visible keys), 1 is even and 0 is one key only; the largest weight; the norm of
the softmax Jacobian, which is what it lets through; and the share of rows that let nothing through.
Here attention without 1/sqrt(d_k) trains: the loss falls, and meanwhile its heads go silent.
"""

import tempfile
from pathlib import Path

import numpy as np

import tinygrad_attn as ta

rng = np.random.default_rng(0)
x = ta.Tensor(rng.standard_normal((8, 12, 32)), dtype="float32")
target = ta.Tensor(rng.standard_normal((8, 12, 32)), dtype="float32")

model = ta.nn.MultiHeadAttention(32, 2, seed=0, scale=1.0, sigma=0.3)
optimizer = ta.optim.SGD(model.parameters(), lr=3.0)
history = Path(tempfile.mkdtemp()) / "meters.jsonl"
recorder = ta.probe.Recorder(model, path=history, every=5, dead=0.9, on_alarm=print)

for step in range(61):
    with recorder.at(step):  # reads every fifth step; the others cost nothing
        error = model(x) - target
        loss = (error * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        heads = "   ".join(f"head {row['head']}: {row['dead']:4.0%} dead" for row in recorder.latest)
        print(f"step {step:2}   loss {loss.item():6.3f}   {heads}")

print()
print(recorder.table())

# The history is on disk, a line per head and step: look for the step in which it happened.
rows = ta.probe.read_history(history)
print(f"\n{len(rows)} rows in {history.name}; dead rows of head 0 over time:")
print("  ", [round(row["dead"], 2) for row in rows if row["head"] == 0])
assert len(rows) == 2 * 13 and rows == recorder.rows and recorder.alarms
