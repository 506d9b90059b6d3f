"""What is 1/sqrt(d_k) for?  Take it away and look at the gradient of the scores.

A score q . k of independent N(0,1) entries has variance d_k: at d_k = 64 typical scores are +-8.  softmax
of such numbers is nearly one-hot, its Jacobian is nearly 0, and no gradient reaches the scores.

Unit-variance q and k matter here: weights drawn with sigma 0.02, as transformers start, give tiny scores
and hide all this until training has made them grow.
"""

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching
from tinygrad_attn.lab.vanishing import EXPLANATION, table, vanishing

# First one attention by itself, unscaled (scale=1.0) and scaled (the default).
rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((3, 16, 256))  # 16 tokens, d_k = 256
gradient = rng.standard_normal((16, 256)) / 16  # dL/d(out)

for name, scale in (("unscaled", 1.0), ("scaled", None)):
    named = {}
    with watching(named.__setitem__):  # q, k, v, scores, scaled, masked, weights and mix pass by
        out, weights = ta.scaled_dot_product_attention(ta.Tensor(q, requires_grad=True), k, v, scale=scale)
    S = named["scaled"].retain_grad()  # what softmax receives
    out.backward(gradient)
    rows = np.linalg.norm(S.grad.numpy(), axis=-1)  # one norm per query
    top = weights.numpy().max(-1)
    print(f"{name}: std of S {S.numpy().std():.2f}, largest weight of a row {np.median(top):.3f} (median)")
    print("  |dL/dS| row by row, sorted:", " ".join(f"{norm:.0e}" for norm in np.sort(rows)))

# Then many, for growing d_k.
samples = vanishing(rows=4_000, draws=40)
print()
print(table(samples))
print("\n".join(EXPLANATION))

for sample in samples:
    expected = 1.0 if sample.scaled else np.sqrt(sample.d_k)
    assert abs(sample.score_std / expected - 1) < 0.05
    assert not sample.scaled or sample.row()["dead_rows"] == 0.0

# So "gradients vanish" is true of dL/dS.  The norms of the parameters' gradients would teach the opposite:
ratios = [sample.row()["W_Q_gradient_ratio"] for sample in samples if not sample.scaled]
print(f"\n|dL/dW_Q| unscaled is {' / '.join(f'{r:.1f}' for r in ratios)} times the scaled one.")
assert all(ratio > 2 for ratio in ratios)
