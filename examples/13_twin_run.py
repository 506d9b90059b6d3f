"""The same model twice, with and without 1/sqrt(d_k): where along the chain does the gradient get lost?

    dL/dout -> dL/dweights -> dL/dscaled -> dL/dscores -> dL/dq -> dL/dW_Q

Between weights and scaled stands the softmax: there saturation takes its share, row by row.  Between
scaled and scores stands the plain factor, the same for all rows: it teaches nothing about learning.
"""

import tinygrad_attn as ta


def make_model(scale):
    return ta.nn.MultiHeadAttention(64, n_heads=1, d_k=256, seed=0, scale=scale, sigma=1 / 8)


ta.manual_seed(0)
twin = ta.probe.compare(make_model, ta.randn(30, 16, 64), scale=(None, 1.0))
table = twin.table()
print(table)

rows = {row["what"]: row for row in table.rows}
print(f"\nsoftmax alone takes the median row to {rows['dL/dscaled']['ratio1']:.3f} of what it was;")
print(f"{rows['dL/dscaled']['dead1']:.0%} of the rows are below 1e-3, scaled {rows['dL/dscaled']['dead0']:.0%};")
print(
    f"yet dL/dW_Q is {rows['dL/dW_Q']['ratio1']:.1f} times as large: norms of the parameters' gradients would hide all this."
)
assert rows["dL/dscaled"]["ratio1"] < 0.2 < 2 < rows["dL/dW_Q"]["ratio1"]
