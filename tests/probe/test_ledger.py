"""The ledger's parts add up: bit for bit where the ways fan in, to rounding further up."""

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe


def test_parts_add_up_bit_for_bit_at_the_fan_in():
    x = ta.randn(7, 5, requires_grad=True)
    W = [ta.randn(5, 5) for _ in range(4)]
    loss = ((x @ W[0]) * (x @ W[1]) + ta.exp(x @ W[2]) + x * 0.3 + x).sum()
    found = probe.ledger(loss, x)
    assert len(found.routes) == 5 and all(route.direct for route in found.routes)
    total = found.routes[0].part.numpy()
    for route in found.routes[1:]:
        total = total + route.part.numpy()
    loss.backward()
    assert total.tobytes() == x.grad.numpy().tobytes() == found.total.numpy().tobytes()


def block_in_float64(**settings):
    model = ta.nn.Block(16, 4, seed=1, sigma=0.4, **settings)
    return model.astype("float64")


def test_the_input_of_a_block_by_q_k_v_and_residual():
    model = block_in_float64(causal=True)
    x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 5, 16)), requires_grad=True)
    out = model(x)
    loss = (out * out).sum()
    found = probe.ledger(loss, x)
    assert [route.name for route in found.routes if route.direct] == ["residual"]
    assert {route.name for route in found.routes} == {"residual", "attn.q", "attn.k", "attn.v"}
    parts = sum(route.part.numpy() for route in found.routes)
    loss.backward()
    error = np.linalg.norm(parts - x.grad.numpy()) / np.linalg.norm(x.grad.numpy())
    assert error < 1e-12
    np.testing.assert_array_equal(found.total.numpy(), x.grad.numpy())
    shares = [row["share"] for row in found.table().rows]
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)


def test_each_route_is_the_gradient_with_the_others_cut():
    """The part through q alone is what remains when k, v and the residual are detached."""
    rng = np.random.default_rng(3)
    x = ta.Tensor(rng.standard_normal((4, 3)), requires_grad=True)
    W = [ta.Tensor(rng.standard_normal((3, 3))) for _ in range(3)]

    def run(q_in, k_in, v_in, rest):
        out, _ = ta.scaled_dot_product_attention(q_in @ W[0], k_in @ W[1], v_in @ W[2])
        return ((out + rest) * (out + rest)).sum()

    found = probe.ledger(run(x, x, x, x), x)
    for i, name in enumerate(("q", "k", "v", "residual")):
        inputs = [x if i == j else x.detach() for j in range(4)]
        alone = ta.grad(run(*inputs), x)
        parts = [route.part.numpy() for route in found.routes if route.name.split(" ")[0] == name]
        np.testing.assert_allclose(sum(parts), alone.numpy(), rtol=1e-12, atol=1e-14)


def test_fused_attention_has_the_same_routes():
    x = ta.randn(2, 6, 4, requires_grad=True)
    W = [ta.randn(4, 4) for _ in range(3)]
    found = probe.ledger((ta.fused_attention(x @ W[0], x @ W[1], x @ W[2]) * 2.0).sum(), x)
    assert [route.name for route in found.routes] == ["q", "k", "v"] or {r.name for r in found.routes} == {
        "q",
        "k",
        "v",
    }


def test_the_mlp_route_and_the_residual():
    model = block_in_float64()
    x = ta.Tensor(np.random.default_rng(0).standard_normal((1, 3, 16)), requires_grad=True)
    middle = []
    with ta.scope("b"):
        x1 = x + model.attn(model.norm1(x))
        middle.append(x1)
        out = x1 + model.mlp(model.norm2(x1))
    found = probe.ledger((out * out).sum(), middle[0])
    assert {route.name for route in found.routes} == {"residual", "b.norm2"}


def test_opposite_routes_have_cosine_minus_one():
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    found = probe.ledger((x * 3.0 - x * 3.0).sum(), x)
    np.testing.assert_allclose(found.cosines(), [[1, -1], [-1, 1]])
    assert found.table().rows[0]["share"] != found.table().rows[0]["share"]  # no total: no share


def test_the_same_tensor_twice_in_one_operation():
    x = ta.Tensor([3.0], requires_grad=True)
    found = probe.ledger((x * x).sum(), x)
    assert [route.part.item() for route in found.routes] == [3.0, 3.0]
    assert [route.name for route in found.routes] == ["mul", "mul (2)"]
    assert found["mul"].part.item() == 3.0
    with pytest.raises(KeyError, match="there are mul"):
        found["add"]


def test_nothing_is_changed_and_too_late_is_said():
    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x + x).sum()
    probe.ledger(loss, x)
    assert x.grad is None
    loss.backward()
    with pytest.raises(RuntimeError, match="too late"):
        probe.ledger(loss, x)
    with pytest.raises(RuntimeError, match="does not depend"):
        probe.ledger((x * 2.0).sum(), ta.ones(1, requires_grad=True))


def test_an_intermediate_that_is_used_later():
    x = ta.Tensor([0.5, -0.25], requires_grad=True)
    h = (x * 2.0).named("h")
    found = probe.ledger((ta.exp(h) + ta.sin(h)).sum(), h)
    assert found.name == "h"
    values = {route.name: route.part.numpy() for route in found.routes}
    np.testing.assert_allclose(values["exp"], np.exp(h.numpy()))
    np.testing.assert_allclose(values["sin"], np.cos(h.numpy()), rtol=1e-6)
