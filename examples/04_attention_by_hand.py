"""Attention by hand: two tokens, four steps, every number small enough for paper.

X = I        W_Q = I     each token asks for what it is
             W_K = swap  ... but shows itself as the other one: token 0 answers to 1, and 1 to 0
             W_V = diag(2, 3)   what a token hands over has its own scale
"""

import numpy as np

import tinygrad_attn as ta

X = np.eye(2)
W_Q = ta.Tensor(np.eye(2), requires_grad=True)
W_K = ta.Tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True, dtype="float64")
W_V = ta.Tensor(np.diag([2.0, 3.0]), requires_grad=True)

q, k, v = X @ W_Q, X @ W_K, X @ W_V  # each (2, 2): a row per token
scores = q @ k.mT  #                   (2, 2): row i holds q_i . k_j for every j
weights = ta.softmax(scores)  #        (2, 2): each row sums to 1
out = weights @ v  #                   (2, 2): row i is an average of the values
print("1. scores = q k^T"), print(scores.numpy())
print("2. no scaling yet (it would be 1/sqrt(2))")
print("3. weights = softmax of each row"), print(weights.numpy().round(5))
print("4. out = weights v"), print(out.numpy().round(5))

# e^1 / (e^0 + e^1) = 0.73106.  Row 0: 0.26894 * (2, 0) + 0.73106 * (0, 3).
assert np.allclose(weights.numpy(), [[0.26894, 0.73106], [0.73106, 0.26894]], atol=5e-6)
assert np.allclose(out.numpy(), [[0.53788, 2.19318], [1.46212, 0.80682]], atol=5e-6)

# Token 0 asks for what token 1 shows, yet its output is no copy of V_1 = (0, 3): softmax is a soft lookup.
# Even with W_V = I row 0 would be (0.26894, 0.73106), not (0, 1).  Only a hard lookup returns V_1 itself,
# and raising the scale approaches it:
print("\nscale     row 0 of the output")
for scale in (1, 4, 16, 64):
    mixed, _ = ta.scaled_dot_product_attention(q, k, v, scale=scale)
    print(f"{scale:5}     {mixed.numpy()[0].round(5)}")
assert np.allclose(mixed.numpy()[0], [0.0, 3.0])

# With the scaling, the scores are divided by sqrt(d_k) = sqrt(2) and the weights are milder.
out, weights = ta.scaled_dot_product_attention(q, k, v)
print("\nscaled by 1/sqrt(2): weights", weights.numpy()[0].round(5), " out", out.numpy()[0].round(5))
assert np.allclose(weights.numpy()[0], [0.33024, 0.66976], atol=5e-6)
assert np.allclose(out.numpy()[0], [0.66048, 2.00928], atol=5e-6)

# All scores come from X by one matrix M = W_Q W_K^T (tokens are rows): scores = X M X^T.
# Here M is the swap, with eigenvalues +1 and -1.  If W_K were W_Q, M = W W^T: its eigenvalues are >= 0
# (0 appears when d_k < d_model), so no token could score below 0 with itself.  With the swap each scores 0.
M = (W_Q @ W_K.mT).numpy()
assert np.allclose(scores.numpy(), X @ M @ X.T)
print("\nM = W_Q W_K^T has eigenvalues", np.linalg.eigvalsh(M), "; tied, W W^T:", np.linalg.eigvalsh(np.eye(2)))

# W_Q = W_K makes *scores* symmetric, not *weights*: softmax normalises rows, and rows differ.
x = np.array([[1.0, 0.0], [1.0, 1.0]])
tied = x @ x.T
rows = ta.softmax(tied).numpy()
print("tied scores", tied.tolist(), " weights", rows.round(3).tolist())
assert (tied == tied.T).all() and abs(rows[0, 1] - rows[1, 0]) > 0.1

# The same softmax over columns is a classic slip.  These symmetric scores would hide it; these do not:
s, v = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[1.0], [10.0]])
right, wrong = (ta.softmax(s, axis=-1) @ v).numpy().ravel(), (ta.softmax(s, axis=0) @ v).numpy().ravel()
print("\nsoftmax over keys (right)", right.round(4), "  over queries (wrong)", wrong.round(4))
assert np.allclose(right, [7.57952721, 2.0728263]) and np.allclose(wrong, [7.42978871, 3.57021129])

# And the gradients: ask for more of out[0, 0] and see which way the queries should turn.
out[0, 0].backward()
print("\nd out[0, 0] / d W_Q ="), print(W_Q.grad.numpy().round(5))
p = 1 / (1 + np.exp(1 / np.sqrt(2)))  # weights[0, 0]; d out / d scores[0] = 2 p (1 - p) (1, -1), times 1/sqrt(2)
slope = 2 * p * (1 - p) / np.sqrt(2)
assert np.allclose(W_Q.grad.numpy(), [[-slope, slope], [0.0, 0.0]])
