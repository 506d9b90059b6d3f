"""Attention against PyTorch: values and gradients, float64 to 1e-12 and float32 to 1e-5 of the largest entry."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

PLACES = {np.float64: 1e-12, np.float32: 1e-5}


def close(ours, theirs, dtype):
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=PLACES[dtype] * max(np.abs(theirs).max(initial=0), 1e-3))


def drawn(dtype, *shapes):
    draws = np.random.default_rng(0)
    return [draws.standard_normal(s).astype(dtype) for s in shapes]


@pytest.mark.parametrize("dtype", PLACES)
@pytest.mark.parametrize("function", ["explicit", "fused"])
@pytest.mark.parametrize("what", ["full", "causal", "mask", "bias", "scale", "n_q != n_k, d_v != d_k", "long"])
def test_scaled_dot_product_attention(what, function, dtype):
    n_q, n_k, d_v = (5, 9, 3) if "!=" in what else (7, 7, 4)
    if what == "long":
        n_q = n_k = 200
    q, k, v, g = drawn(dtype, (2, 3, n_q, 4), (2, 3, n_k, 4), (2, 3, n_k, d_v), (2, 3, n_q, d_v))
    ours, theirs = {}, {}
    if what in ("causal", "long"):
        ours, theirs = {"causal": True}, {"is_causal": True}
    elif what == "mask":
        keep = np.random.default_rng(1).random((2, 1, n_q, n_k)) < 0.6
        keep[..., 0] = True
        ours, theirs = {"mask": keep}, {"attn_mask": torch.tensor(keep)}
    elif what == "bias":
        (bias,) = drawn(dtype, (3, n_q, n_k))
        ours, theirs = {"bias": bias}, {"attn_mask": torch.tensor(bias)}
    elif what == "scale":
        ours, theirs = {"scale": 1.0}, {"scale": 1.0}
    a = [ta.Tensor(x, requires_grad=True) for x in (q, k, v)]
    b = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    out = ta.fused_attention(*a, **ours) if function == "fused" else ta.scaled_dot_product_attention(*a, **ours)[0]
    right = torch.nn.functional.scaled_dot_product_attention(*b, **theirs)
    out.backward(g)
    right.backward(torch.tensor(g))
    close(out.numpy(), right, dtype)
    for x, y in zip(a, b):
        close(x.grad.numpy(), y.grad, dtype)


@pytest.mark.parametrize("dtype", PLACES)
@pytest.mark.parametrize("attention", ["explicit", "fused"])
@pytest.mark.parametrize("what", ["self", "cross", "causal", "padding"])
def test_multi_head_attention(what, attention, dtype):
    """Weights copied over: theirs are (outputs, inputs), one stack of three."""
    d, heads = 12, 3
    theirs = torch.nn.MultiheadAttention(
        d, heads, batch_first=True, dtype=torch.float64 if dtype is np.float64 else torch.float32
    )
    ours = ta.nn.MultiHeadAttention(d, heads, 0, packed=True, bias=True, causal=what == "causal", attention=attention)
    ours = ours.astype(dtype)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
    ours.load_state_dict({
        "W_QKV": theirs.in_proj_weight.detach().numpy().T, "b_QKV": theirs.in_proj_bias.detach().numpy(),
        "W_O": theirs.out_proj.weight.detach().numpy().T, "b_O": theirs.out_proj.bias.detach().numpy(),
    })  # fmt: skip
    x, c, g = drawn(dtype, (2, 5, d), (2, 8, d), (2, 5, d))
    a, b = ta.Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    our_context = their_context = None
    if what == "cross":
        our_context, their_context = ta.Tensor(c, requires_grad=True), torch.tensor(c, requires_grad=True)
    keys = ta.padding_mask([3, 5], 5) if what == "padding" else None
    settings = {"attn_mask": torch.tensor(~np.tri(5, dtype=bool))} if what == "causal" else {}
    if keys is not None:
        settings["key_padding_mask"] = torch.tensor(~keys[:, 0])
    out, weights = ours(a, our_context, keys, return_weights=True)
    if attention == "fused":
        out = ours(a, our_context, keys)
    source = b if their_context is None else their_context
    right, right_weights = theirs(b, source, source, average_attn_weights=False, **settings)
    out.backward(g)
    right.backward(torch.tensor(g))
    close(out.numpy(), right, dtype)
    close(weights.numpy(), right_weights, dtype)
    close(a.grad.numpy(), b.grad, dtype)
    if our_context is not None:
        close(our_context.grad.numpy(), their_context.grad, dtype)
    close(ours.W_QKV.grad.numpy().T, theirs.in_proj_weight.grad, dtype)
    close(ours.b_QKV.grad.numpy(), theirs.in_proj_bias.grad, dtype)
    close(ours.W_O.grad.numpy().T, theirs.out_proj.weight.grad, dtype)
    close(ours.b_O.grad.numpy(), theirs.out_proj.bias.grad, dtype)
