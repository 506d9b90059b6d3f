"""Who may see whom: masks are plain boolean arrays, so they are made with & and |.

A mask has a row per query and a column per key; True means "may attend".  Four masks that real models
use, each from one line of arithmetic, each drawn, and then the proof: gradients.  What a query may not
see has no influence on its output, so the gradient there is exactly 0.
"""

import numpy as np

import tinygrad_attn as ta

n = 6
causal = ta.causal_mask(n)
print("Causal: no query sees a later key.")
print(ta.attention.picture(causal))

# A sliding window: itself and the two before it.  Cost falls from n^2 to 3 n.
i, j = np.arange(n)[:, None], np.arange(n)
window = causal & (i - j < 3)
print("\nSliding window of 3: causal & (i - j < 3)")
print(ta.attention.picture(window))

# Two documents packed into one sequence: no token sees the other document.
document = np.array([0, 0, 1, 1, 1, 1])
packed = causal & (document[:, None] == document)
print("\nTwo documents in one row: causal & same document")
print(ta.attention.picture(packed))

# The window, but everybody may see token 0 too (an "attention sink").
sink = window | (causal & (j == 0))
print("\nWindow or token 0: window | (causal & (j == 0))")
print(ta.attention.picture(sink))

# Sentences of different lengths in one batch: keys past the end are hidden.  Shape (batch, 1, n).
padded = causal & ta.padding_mask([4, 6], n)
print("\nTwo sentences of lengths 4 and 6, padded to 6: causal & padding")
print(ta.attention.picture(padded))

# The proof.  One gradient per query: d(output of query i)/d(value of key j) is nonzero only where the mask is True.
x = ta.Tensor(np.random.default_rng(0).standard_normal((n, 4)), requires_grad=True)
print("\nWhere dL_i/dx_j is not 0, measured by six backward passes through the packed mask:")
reached = np.zeros((n, n), bool)
for query in range(n):
    out, _ = ta.scaled_dot_product_attention(x, x, x, mask=packed)
    reached[query] = (ta.grad((out[query] ** 2).sum(), x).numpy() != 0).any(axis=1)
print(ta.attention.picture(reached))
assert (reached == packed).all()

# A checker for masks that run without an error and are wrong all the same.
print("\nWhat check_mask says")
for name, mask, shape in [
    ("of the causal mask", causal, (n, n)),
    ("of np.triu(..., 1), meant as 'hide these'", np.triu(np.ones((n, n), bool), 1), (n, n)),
    ("of keys (batch, n) for scores (batch, heads, n, n)", ta.padding_mask([4, 6], n)[:, 0], (2, 8, n, n)),
]:
    print(f"  {name}:")
    for finding in ta.check_mask(mask, shape) or ["nothing to say"]:
        print(f"    {finding}")
