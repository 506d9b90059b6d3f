"""The chain rule, one step at a time.

    x = 3 ── a = 2 x ── b = a + 1 ── L = b^2

Forward computes from left to right.  Backward walks from right to left and multiplies: at each step the
gradient that comes in, times the derivative of that one step.  Nobody ever writes down dL/dx as a whole.
"""

import tinygrad_attn as ta

x = ta.Tensor(3.0, requires_grad=True).named("x")
a = (2 * x).named("a")
b = (a + 1).named("b")
L = (b * b).named("L")
print(f"forward:  x = {x.item():g}   a = 2x = {a.item():g}   b = a + 1 = {b.item():g}   L = b^2 = {L.item():g}\n")

# Backward is a generator: ta.steps yields each step when its gradient is complete, L first, x last.
# A constant (the 2, the 1) has no gradient and makes no step.
print("backward:")
for step in ta.steps(L):
    node = step.node
    print(f"          dL/d{node.name} = {float(step.gradient):<4g}   {node.name} was made by {node.op.name}")

print("""
By hand:  dL/dL = 1
          dL/db = 1 * 2b = 14           b enters the product twice: b + b
          dL/da = 14 * 1 = 14           a sum hands its gradient on
          dL/dx = 14 * 2 = 28""")
assert x.grad.item() == 28.0

# x.backward() is the same walk without looking.  Gradients add up in .grad until you clear it.
L = (2 * x + 1) ** 2
L.backward()
print(f"\nA second backward adds to .grad: 28 + 28 = {x.grad.item():g}. Training loops clear it each step.")
assert x.grad.item() == 56.0

# The rules are differentiable too: with create_graph the gradient is a tensor with a history.
x.grad = None
first = ta.grad((2 * x + 1) ** 2, x, create_graph=True)
second = ta.grad(first, x)
print(f"dL/dx = 4 (2x + 1) = {first.item():g}, and its own derivative is {second.item():g}.")
assert (first.item(), second.item()) == (28.0, 8.0)
