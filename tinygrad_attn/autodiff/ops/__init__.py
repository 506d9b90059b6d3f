"""The operations and their rules, easy first: elementwise, choice, activation, reduce, shape, matmul, affine, index,
softmax, mask, norm, loss.

Read them in this order.  Each rule is the chain rule for one argument; g is dL/d(out)."""
