"""Where did this gradient come from?  The input of a block gets it along four routes.

    x -> norm -> q, k, v -> attention -> +        dL/dx = through q + through k + through v + residual
     └────────────────────────────────── +

Backward adds them up without a word.  The ledger keeps them apart, and their sum is the gradient.
"""

import numpy as np

import tinygrad_attn as ta

ta.manual_seed(0)
x = ta.randn(2, 8, 32, requires_grad=True).named("x")

for sigma in (0.02, 0.5):
    model = ta.nn.Block(32, 4, seed=0, causal=True, sigma=sigma)
    out = model(x)
    loss = (out * out).mean()
    ledger = ta.probe.ledger(loss, x)  # between forward and backward; it changes nothing
    print(f"weights drawn with sigma {sigma}")
    print(f"{ledger}\n")

print("Small weights: the residual carries everything, that is why deep stacks of blocks start to learn at all.")

# The parts add up to what backward gives.
x.grad = None
loss.backward()
parts = sum(route.part.numpy() for route in ledger.routes)
print("largest difference to x.grad:", np.abs(parts - x.grad.numpy()).max())
assert np.allclose(parts, x.grad.numpy(), rtol=1e-4, atol=1e-7)
