"""What broadcasting does to gradients: copied forward, summed backward.

Adding a bias (3,) to rows (2, 3) uses each bias twice.  A value that is used twice gets two gradients,
and gradients of one value add up.  So wherever forward stretched an axis, backward sums over it, and a
gradient always has the shape of its own tensor.
"""

import numpy as np

import tinygrad_attn as ta

rows = ta.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)  # (2, 3)
bias = ta.Tensor([10.0, 20.0, 30.0], requires_grad=True)  #                     (3,)
gradient = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])  #                dL/d(rows + bias)

(rows + bias).backward(gradient)
print("rows (2, 3) + bias (3,), with dL/d(sum) =")
print(gradient)
print(f"dL/d(rows) is the same, shape {rows.grad.shape}")
print(f"dL/d(bias) = {bias.grad.numpy()}, shape {bias.grad.shape}: each column summed")
assert (rows.grad.numpy() == gradient).all()
assert (bias.grad.numpy() == [3.0, 30.0, 300.0]).all()

# A column (2, 1) times a row (3,) makes a table (2, 3).  Each entry of the column met three partners.
column = ta.Tensor([[2.0], [-1.0]], requires_grad=True)  # (2, 1)
row = ta.Tensor([0.5, 1.0, 2.0], requires_grad=True)  #    (3,)
weights = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
(column * row).backward(weights)
print("\ncolumn (2, 1) * row (3,), with dL/d(product) =")
print(weights)
print(f"dL/d(column) = {column.grad.numpy().tolist()}: row by row, 1*0.5 + 2*1 + 3*2 = 8.5")
print(f"dL/d(row) = {row.grad.numpy().tolist()}: column by column, 1*2 + 4*(-1) = -2")
assert column.grad.numpy().tolist() == [[8.5], [19.0]]
assert row.grad.numpy().tolist() == [-2.0, -1.0, 0.0]

# What goes wrong without the sum: a (2, 3) gradient for a (3,) bias.  `bias -= lr * gradient` would then
# quietly turn the bias into a matrix.  Here it is an error that says what was expected.
try:
    bias.grad = gradient
except ValueError as error:
    print(f"\nA gradient of another shape is refused:\n  {error}")
else:
    raise AssertionError("a gradient of the wrong shape was accepted")
