"""The whole engine in sixty lines: Node, op, record, walk, in the words of tinygrad_attn/autodiff/.

What is left out there makes it fast, safe and twice differentiable; the idea is all here.  Read this first.
"""

import inspect
import itertools

import numpy as np

tick = itertools.count(1).__next__  # the clock: a node is made after its parents


class Node:
    """One recorded value: what made it, from which parents, and what the rules need.  A leaf has no rules."""

    def __init__(self, name, shape, rules=None, parents=None, saved=None):
        self.name, self.shape, self.made, self.grad = name, shape, tick(), None
        self.rules, self.parents, self.saved = rules or {}, parents or {}, saved or {}


class Tensor:
    """An array, and the node that made it (None: a constant)."""

    def __init__(self, data, requires_grad=False):
        self.data = np.array(data, dtype=float)
        self.node = Node("leaf", self.data.shape) if requires_grad else None

    def backward(self):
        for node, gradient in walk(self.node, np.ones_like(self.data)):
            if not node.rules:
                node.grad = gradient if node.grad is None else node.grad + gradient


def op(**rules):
    """An operation is data: a forward on arrays, and for each argument a rule that turns dL/d(out) into dL/d(argument).
    The names of a rule's parameters say what it needs: an argument of the forward, or out."""

    def define(forward):
        def call(*args, **settings):
            given = inspect.signature(forward).bind(*args, **settings).arguments
            arrays = {name: x.data if isinstance(x, Tensor) else x for name, x in given.items()}
            out = Tensor(forward(**arrays))
            parents = {name: given[name].node for name in rules if getattr(given.get(name), "node", None)}
            if parents:  # record
                out.node = Node(forward.__name__, out.data.shape, rules, parents, arrays | {"out": out.data})
            return out

        return call

    return define


def walk(loss, gradient):
    """Backward, one node at a time, the youngest first: all its consumers are younger, so its gradient is complete."""
    order = [loss]
    for node in order:  # grows while it is read
        order += [parent for parent in node.parents.values() if parent not in order]
    order.sort(key=lambda node: node.made)
    pending = {loss: gradient}  # gradient received so far
    while order:
        node = order.pop()
        gradient = pending.pop(node)
        for argument, parent in node.parents.items():
            rule = node.rules[argument]
            needs = list(inspect.signature(rule).parameters)[1:]
            contribution = rule(gradient, **{name: node.saved[name] for name in needs})
            pending[parent] = pending.get(parent, 0) + sum_to(contribution, parent.shape)
        yield node, gradient


def sum_to(x, shape):
    """Broadcasting, undone: sum over the axes along which `shape` was repeated."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


# ------------------------------------------------ and what one does with it: four operations make attention


@op(x=lambda g, y: g * y, y=lambda g, x: g * x)
def mul(x, y):
    return x * y


@op(x=lambda g, y: g @ y.swapaxes(-1, -2), y=lambda g, x: x.swapaxes(-1, -2) @ g)
def matmul(x, y):
    return x @ y


@op(x=lambda g: g.T)
def transpose(x):
    return x.T


@op(x=lambda g, out: out * (g - (g * out).sum(-1, keepdims=True)))
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


if __name__ == "__main__":
    rng, reached = np.random.default_rng(0), {}
    q, k = (Tensor(rng.standard_normal((4, 256)), requires_grad=True) for _ in range(2))
    for scale in (1 / 16, 1.0):  # with 1/sqrt(d_k), and without
        weights = softmax(mul(matmul(q, transpose(k)), scale))  # (4, 4)
        for node, gradient in walk(weights.node, rng.standard_normal((4, 4))):
            print(f"scale {scale:<6g}  {node.name:9} {node.shape!s:9} |dL/d(out)| {np.linalg.norm(gradient):8.1e}")
            reached[node.name, scale] = np.linalg.norm(gradient)
    assert reached["mul", 1.0] < reached["mul", 1 / 16] / 10  # what softmax hands on to the scores dies
