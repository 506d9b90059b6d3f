"""A gradient reads 0.  Is it 0?

Three different things print as 0: a masked pair (the exact gradient is 0), an underflow (it is smaller
than float32 can hold), and a rounding (it could be held, but a difference lost it).  Only the first is
what you want.
"""

import numpy as np

import tinygrad_attn as ta

KINDS = ta.probe.KINDS

# A causal head whose queries grow: 1, 10, 100 ... times the first.
q = ta.Tensor([[0.3], [3.0], [30.0], [60.0]], requires_grad=True)
k = ta.Tensor([[0.0], [1.0], [2.0], [3.0]])
with ta.probe.watch("scores") as seen:
    out, _ = ta.scaled_dot_product_attention(q, k, [[1.0], [0.0], [5.0], [2.0]], causal=True)
    out.sum().backward()

gradient, kinds = seen["scores"].grad.numpy(), seen["scores"].kinds
print("dL/dscores:")
for row, why in zip(gradient, kinds):
    print("  ", "  ".join(f"{g:10.3g} {KINDS[kind]:10}" for g, kind in zip(row, why)))
assert KINDS[kinds[0, 3]] == "structural" and KINDS[kinds[3, 0]] == "underflow"

# For any tensor of any graph, before backward: probe.zeros runs the rules again in float64.
x = ta.Tensor([1.0, 1.0], requires_grad=True)
loss = (x * [1e30, 1.0] + x - x * [1e30, 1.0]).sum()  # exactly x: the gradient is 1
print("\nwhy is it 0?", [KINDS[kind] for kind in ta.probe.zeros(loss, x)])
loss.backward()
print("float32 says", x.grad.numpy(), "where 1 and 1 is right")
assert np.array_equal(x.grad.numpy(), [0.0, 1.0])
