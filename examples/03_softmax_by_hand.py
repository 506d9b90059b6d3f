"""softmax by hand: its Jacobian, its gradient, and why the gradient vanishes.

p_i = e^(x_i) / sum_j e^(x_j)         dp_i/dx_j = p_i (delta_ij - p_j)
"""

import numpy as np

import tinygrad_attn as ta

x = np.array([0.2, -1.0, 0.7])
p = np.exp(x) / np.exp(x).sum()
J = np.diag(p) - np.outer(p, p)
print("p =", p.round(4), " sums to", p.sum().round(12))
print("Jacobian by hand, p_i (delta_ij - p_j):")
print(J.round(4))

# The engine never builds this matrix: it multiplies a gradient with it, p_i (g_i - sum_j p_j g_j).
# Asking with one unit vector after the other gives the matrix back.
assert np.allclose(ta.jacobian(ta.softmax, x).numpy(), J, atol=1e-15)
print("the engine's gradients, one unit vector after the other: the same matrix\n")

# Rows of p sum to 1 whatever x is, so the gradient of the sum is 0.  A test with .sum() sees nothing.
t = ta.Tensor(x, requires_grad=True)
ta.softmax(t).sum().backward()
print("gradient of p.sum():", t.grad.numpy().round(12) + 0.0)
assert np.abs(t.grad.numpy()).max() < 1e-16
t.grad = None
g = np.array([1.0, 2.0, 4.0])
ta.softmax(t).backward(g)
print("gradient with g = (1, 2, 4):", t.grad.numpy().round(6))
assert np.allclose(t.grad.numpy(), [-0.60300588, -0.07951922, 0.68252511], atol=1e-8)

# Multiply x by a growing factor: p goes to one-hot and the Jacobian to 0.  Nothing is wrong with the
# formula; there is just no slope left.  This is what large attention scores do.
print("\nfactor     p                        norm of the Jacobian")
for factor in (1, 4, 16, 64):
    values = ta.softmax(factor * x).numpy()
    norm = np.linalg.norm(ta.jacobian(ta.softmax, factor * x).numpy())
    print(f"{factor:6}     {'  '.join(f'{value:.4f}' for value in values):22}   {norm:.1e}")
assert norm < 1e-13

# Small is not zero.  In float32 with logits (20, 0) the textbook line rounds the winner's gradient away,
# because 1 - p_0 * 1 is computed as 1 - 1.  Taking g_winner from all g first leaves nothing to cancel.
logits, g = np.array([20.0, 0.0], np.float32), np.array([1.0, 0.0], np.float32)
p = ta.softmax(logits).numpy()
textbook = p * (g - (p * g).sum())
t = ta.Tensor(logits, requires_grad=True)
ta.softmax(t).backward(g)
print(f"\nlogits (20, 0), g = (1, 0), float32:\n  textbook   {textbook}\n  here       {t.grad.numpy()}")
assert textbook[0] == 0.0 and np.allclose(t.grad.numpy(), [2.0611537e-9, -2.0611537e-9], rtol=1e-5)
