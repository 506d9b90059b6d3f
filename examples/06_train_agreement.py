"""Train attention end to end, and see where it looks.

    I work , you work , he ___       bare, or -s?

Only the pronoun at position 6 decides; the ones at 0 and 3 are bait.  The blank at position 7 must find
out to look at 6.  The model and the loop are written out here; tinygrad_attn/train/reader.py is the same
as a module to import.
"""

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching
from tinygrad_attn.tasks.agreement import VOCABULARY, agreement, decode

SEED, D_MODEL, HEADS = 0, 64, 4
task = agreement(SEED)
print(
    f"{len(task.train):,} training sentences; {len(task.held_out):,} held out, their verb-pronoun pairs never trained, e.g."
)
print(f"  {decode(task.held_out.tokens[0])}   {task.answers[task.held_out.labels[0]]}\n")


class Reader(ta.Module):
    def __init__(self):
        rng = np.random.default_rng(SEED)
        self.token = ta.nn.Embedding(len(VOCABULARY), D_MODEL, seed=rng)
        self.position = ta.nn.Embedding(8, D_MODEL, seed=rng)  # without it, attention cannot tell 6 from 0
        self.block = ta.nn.Block(D_MODEL, HEADS, rng, causal=True)
        self.norm = ta.nn.LayerNorm(D_MODEL)
        self.answer = ta.nn.Linear(D_MODEL, len(task.answers), seed=rng)

    def forward(self, tokens):  #                                   (B, 8)
        x = self.token(tokens) + self.position(np.arange(8))  #     (B, 8, 64)
        x = self.block(x)  #                                        (B, 8, 64)
        return self.answer(self.norm(x[:, 7]))  #                   (B, 2): the blank answers


reader = Reader()
optimizer = ta.optim.Adam(reader.parameters(), lr=1e-3)
rng = np.random.default_rng(SEED)


def exam():
    """Accuracy, and the attention weights (sentences, heads, 8, 8), on the held-out sentences."""
    named = {}
    with ta.no_grad(), watching(named.__setitem__):  # every named tensor passes by
        right = reader(task.held_out.tokens).argmax(-1) == task.held_out.labels
    return right.mean(), named["block.attn.weights"].numpy()


print("step   loss     held-out accuracy   head-mean weight of the blank on each token")
for step in range(61):
    tokens, labels = task.train.batch(rng, 64)
    loss = ta.cross_entropy(reader(tokens), labels)
    if step % 10 == 0:
        accuracy, weights = exam()
        print(f"{step:4}   {loss.item():.4f}   {accuracy:17.1%}   {weights[:, :, 7].mean((0, 1)).round(2)}")
    optimizer.zero_grad()  # gradients add up, so forget the last ones
    loss.backward()
    optimizer.step()

row7 = weights[:, :, 7].mean(axis=1)  # (sentences, 8)
share = (row7.argmax(-1) == 6).mean()
print(f"\nThe blank looks most at position 6 in {share:.0%} of the held-out sentences.")
assert accuracy == 1.0 and share >= 0.95
