"""Your own operation: a forward on arrays, and one rule per argument.

A rule takes g = dL/d(out) and gives dL/d(argument).  It names what it needs, and nothing else is kept:
`out` is the result, `x` an argument, `x_shape` only its shape.
"""

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.autodiff.ops.elementwise import exp


# softplus(x) = log(1 + e^x), a smooth relu.  Its derivative is 1 / (1 + e^-x).
# `exp` from ops/ works on arrays and on tensors, so the rule can itself be differentiated.
@ta.op(vjps={"x": lambda g, x: g / (1 + exp(-x))})
def softplus(x):
    return np.logaddexp(0, x)


x = ta.Tensor([-1.0, 0.0, 2.0], requires_grad=True)
y = softplus(x)
y.sum().backward()
print("softplus:", y.numpy().round(4), " slope:", x.grad.numpy().round(4))
assert np.allclose(x.grad.numpy(), 1 / (1 + np.exp([1.0, 0.0, -2.0])))

# Is the rule right?  Compare with central differences in float64: gradient, and gradient of gradient.
ta.testing.check_grads(softplus, np.array([-1.0, 0.3, 2.0]), order=2)
print("check_grads: first and second derivatives agree with central differences")


# A rule with a mistake is found at once.
@ta.op(vjps={"x": lambda g, out: g * out})  # this is the rule of exp
def wrong(x):
    return np.logaddexp(0, x)


try:
    ta.testing.check_grads(wrong, np.array([0.3]))
except AssertionError as error:
    print(f"with a wrong rule: {error}")
else:
    raise AssertionError("the wrong rule was not found")


# The rule decides what the gradient is, whatever the forward does.  A step function has slope 0
# everywhere and could never learn; "straight through" hands the gradient on as if it were not there.
@ta.op(vjps={"x": lambda g: g})
def step(x):
    return np.where(x > 0, 1.0, 0.0).astype(x.dtype)


x = ta.Tensor([-0.5, 0.5], requires_grad=True)
((step(x) - 1) ** 2).sum().backward()
print("straight through a step:", step(x).numpy(), " gradient:", x.grad.numpy())
assert x.grad.numpy().tolist() == [-2.0, 0.0]

# A rule may only ask for what exists; a typing error is found when the operation is defined.
try:
    ta.op(vjps={"x": lambda g, z: g * z})(lambda x: x)
except TypeError as error:
    print(f"a rule that asks for z: {error}")
else:
    raise AssertionError("a rule may not ask for what does not exist")
