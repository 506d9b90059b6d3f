"""A small GPT on real text: the language reference that ships inside every Python.

Characters in, the next character out.  Two blocks, a few hundred steps, seconds: enough for short words
and spaces in the right places.  ``tinygrad-attn train text`` is the same with checkpoints and pictures.
"""

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.tasks.text import Text

CONTEXT, BATCH, STEPS = 48, 16, 400
task = Text(seed=0, context=CONTEXT)
vocabulary = np.array(task.vocabulary)
model = ta.nn.MiniGPT(len(vocabulary), CONTEXT, d_model=64, n_heads=4, n_layers=2, seed=0)
optimizer = ta.optim.AdamW(model.parameters(), lr=3e-3, matrices_only=True)
print(model)
print(f"guessing blindly costs log({len(vocabulary)}) = {np.log(len(vocabulary)):.2f} nats per character\n")

for step in range(STEPS + 1):
    optimizer.lr = ta.optim.warmup_cosine(step, STEPS, peak=3e-3, warmup=20)
    tokens, targets = task.rows(step * BATCH, BATCH)  # (16, 48): batch number `step`, always the same one
    loss = ta.cross_entropy(model(tokens), targets)
    optimizer.zero_grad()
    loss.backward()
    ta.optim.clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3}   loss {loss:.2f}")
assert loss < 2.7

start = [task.vocabulary.index(c) for c in "The function "]
print("\nA sample, one character at a time with a key/value cache:\n")
print("".join(vocabulary[model.generate(start, CONTEXT - len(start), temperature=0.5, seed=1)]))
