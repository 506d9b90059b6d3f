"""See every gradient inside a model: by name, every head apart, without touching the model.

`watch` takes a model and patterns of names; the forward pass must be inside its block.  It changes no
bit of the run, and costs nothing once closed.
"""

import tinygrad_attn as ta

model = ta.nn.Block(d_model=32, n_heads=4, seed=0, causal=True, sigma=0.4)
x = ta.randn(2, 6, 32)

with ta.probe.watch(model, "*.scores", "*.weights", "*.W_Q") as seen:
    out = model(x)
    (out * out).mean().backward()

# Worst first: broken numbers, then dead rows, then the smallest gradients.
print(seen.table())

# One of them.  .value and .grad are tensors; .head(2) is one head alone.
scores = seen["attn.scores"]
print(f"\n{scores}\n  made by {scores.line}")
print("  head 2, first sequence, dL/dscores:\n", scores.head(2).grad.numpy()[0].round(4))

# The same for any function of tensors: name what you want to see.
q = ta.randn(3, 4, requires_grad=True)
with ta.probe.watch() as seen:
    ta.tanh((q * 10.0).named("before")).named("after").sum().backward()
print("\nthrough a saturated tanh:", seen["after"].grad.numpy()[0], "->", seen["before"].grad.numpy()[0])

# A question without an answer is an error that says why, never a 0.
try:
    seen["befor"]
except KeyError as error:
    print(error.args[0])
assert not (seen["before"].grad.numpy() == 1).any()
