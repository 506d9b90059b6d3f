"""What does a head look for?  scores = x M x^T with M = W_Q W_K^T, one matrix per head.

Its rank says how many directions count.  Its symmetric part says "look for what is like me" (positive
eigenvalues) or "unlike me" (negative ones); its antisymmetric part says "what I look for is not what I am".
"""

import numpy as np

import tinygrad_attn as ta

model = ta.nn.MultiHeadAttention(32, 4, seed=0)
print(ta.probe.lens(model))

print("\nOne matrix for both, W_K = W_Q: only attraction, no asking for something else.")
tied = ta.probe.lens(ta.nn.MultiHeadAttention(32, 4, seed=0, tie="qk"))
print(tied)
assert all(np.isclose(form.symmetric, 1.0) and form.eigenvalues.min() > -1e-9 for form in tied[""])

# A head that attends to the token before it, in a world where tokens are positions on a circle: M turns by one.
turn = np.roll(np.eye(8), 1, axis=0)
form = ta.probe.form(np.eye(8), turn.T)
print(
    f"\na turn by one position: {form.symmetric:.0%} symmetric, {form.antisymmetric:.0%} antisymmetric, rank {form.rank}"
)
assert form.rank == 8 and np.isclose(form.symmetric + form.antisymmetric, 1.0)
