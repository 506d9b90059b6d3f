"""Fused attention is the explicit one: value, gradient, and the gradient of its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn.autodiff.mode import watching
from tinygrad_attn.autodiff.testing import check_grads

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


def both(q, k, v, g, **options):
    """(out, dq, dk, dv, dbias) of the explicit and of the fused form."""
    results = []
    for function in (lambda *a, **o: ta.scaled_dot_product_attention(*a, **o)[0], ta.fused_attention):
        leaves = [ta.Tensor(x, requires_grad=True) for x in (q, k, v)]
        named = dict(options)
        if "bias" in named:
            named["bias"] = ta.Tensor(named["bias"], requires_grad=True)
        out = function(*leaves, **named)
        out.backward(g)
        gradients = [leaf.grad.numpy() for leaf in leaves]
        if "bias" in named:
            gradients.append(named["bias"].grad.numpy())
        results.append([out.numpy(), *gradients])
    return results


def largest_difference(ours, theirs):
    return max(
        float(np.max(np.abs(a - b), initial=0.0) / max(1.0, np.max(np.abs(a), initial=0.0)))
        for a, b in zip(ours, theirs, strict=True)
    )


@st.composite
def problems(draw):
    """q, k, v, the gradient of the output, and options: few queries and keys, none too."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_q, n_k, d_k, d_v = (
        draw(st.integers(0, 5)),
        draw(st.integers(0, 6)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 5)),
    )
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    options = {
        "causal": draw(st.sampled_from([False, "top-left", "bottom-right"])),
        "scale": draw(st.sampled_from([None, 1.0, 5.0, 0.0])),
    }
    if draw(st.booleans()):
        options["mask"] = rng.random((*lead, n_q, n_k)) < 0.6
    if draw(st.booleans()):
        options["bias"] = rng.normal(size=(n_q, n_k))
    shapes = (n_q, d_k), (n_k, d_k), (n_k, d_v), (n_q, d_v)
    return [rng.normal(size=(*lead, *shape)) for shape in shapes], options


@given(problems())
@settings(max_examples=150, deadline=None)
def test_fused_equals_explicit(problem):
    (q, k, v, g), options = problem
    explicit, fused = both(q, k, v, g, **options)
    assert largest_difference(explicit, fused) < 1e-12


@pytest.mark.parametrize("n", [300, 513])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 1.0])
def test_long_sequences_take_the_blocked_path_and_agree(n, causal, scale):
    q, k, v, g = (normal(2, 3, n, 16) for _ in range(4))
    explicit, fused = both(q, k, v, g, causal=causal, scale=scale)
    assert largest_difference(explicit, fused) < 1e-12


def test_grouped_heads_and_views_need_no_copies():
    q, k, v = normal(2, 2, 3, 5, 4), normal(2, 2, 1, 6, 4), normal(2, 2, 1, 6, 3)
    explicit, fused = both(q, k, v, normal(2, 2, 3, 5, 3))
    assert largest_difference(explicit, fused) < 1e-12
    strided = normal(4, 5, 2).transpose(2, 1, 0)
    explicit, fused = both(strided, strided[:, ::-1], strided[:, ::-1], normal(2, 5, 4))
    assert largest_difference(explicit, fused) < 1e-12


def test_nan_behind_the_mask_stays_there():
    q, k, v, g = normal(4, 3), normal(5, 3), normal(5, 2), normal(4, 2)
    keep = np.ones((4, 5), bool)
    keep[:, 3] = False
    clean = both(q, k, v, g, mask=keep)[1]
    k[3], v[3] = np.nan, np.inf
    explicit, fused = both(q, k, v, g, mask=keep)
    assert largest_difference(explicit, fused) < 1e-12
    assert largest_difference(clean, fused) < 1e-12


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"mask": np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]], bool)},
        {"scale": 2.0},
        {"bias": normal(3, 3)},
    ],
    ids=["plain", "causal", "mask with an empty row", "scale", "bias"],
)
def test_gradients_of_gradients(options):
    check_grads(
        lambda q, k, v: ta.fused_attention(q, k, v, **options), normal(2, 3, 4), normal(2, 3, 4), normal(2, 3, 2)
    )


@pytest.mark.parametrize("shape", [(1, 4, 8, 16), (2, 4, 64, 16), (1, 2, 300, 32)])
@pytest.mark.parametrize("causal", [False, True])
def test_float32_is_as_near_to_float64_as_the_explicit_form(shape, causal):
    q, k, v, g = (normal(*shape) for _ in range(4))
    right, _ = both(q, k, v, g, causal=causal)
    explicit, fused = both(*(x.astype(np.float32) for x in (q, k, v, g)), causal=causal)
    assert largest_difference(right, fused) < 4 * largest_difference(right, explicit) + 1e-6


def test_dropout_patterns_are_those_of_the_explicit_form():
    q, k, v, g = (normal(2, 3, 70, 8) for _ in range(4))
    results = []
    for function in (lambda *a, **o: ta.scaled_dot_product_attention(*a, **o)[0], ta.fused_attention):
        ta.manual_seed(5)
        leaf = ta.Tensor(q, requires_grad=True)
        out = function(leaf, k, v, causal=True, dropout=0.4)
        out.backward(g)
        results.append([out.numpy(), leaf.grad.numpy()])
    assert largest_difference(*results) < 1e-12


def test_a_watched_run_equals_an_unwatched_one_bit_for_bit():
    def run(watcher=None):
        ta.manual_seed(1)
        leaves = [
            ta.Tensor(np.random.default_rng(i).normal(size=(2, 9, 8)), requires_grad=True, dtype="float32")
            for i in range(3)
        ]
        if watcher is None:
            out = ta.fused_attention(*leaves, causal=True, dropout=0.2)
        else:
            with watching(watcher):
                out = ta.fused_attention(*leaves, causal=True, dropout=0.2)
        (out * out).sum().backward()
        return [out.numpy(), *[leaf.grad.numpy() for leaf in leaves]]

    gradients = {}

    def watcher(path, tensor):
        tensor.register_hook(lambda g: gradients.update({path: g.numpy()}))

    watched, unwatched = run(watcher), run()
    assert all(np.array_equal(a, b) for a, b in zip(watched, unwatched, strict=True))
    assert set(gradients) == {"q", "k", "v", "scores", "scaled", "masked", "weights", "mix"}
    assert np.allclose(gradients["q"], watched[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("d_k", [64, 256, 512])
def test_saturated_gradients_survive(d_k):
    """Unscaled float32 scores of std sqrt(d_k): no row of dq or dk is off by more than 10 %."""
    rng = np.random.default_rng(d_k)
    q, k, v, g = (rng.normal(size=(4, 64, d_k)).astype(np.float32) for _ in range(4))
    _, fused = both(q, k, v, g, scale=1.0)
    right, _ = both(*(x.astype(np.float64) for x in (q, k, v, g)), scale=1.0)
    for ours, exact in ((fused[1], right[1]), (fused[2], right[2])):
        size = np.linalg.norm(exact, axis=-1)
        error = np.linalg.norm(ours - exact, axis=-1)
        assert (error[size > 1e-30] <= 0.1 * size[size > 1e-30]).all()


def test_statistics_take_a_bias_as_attention_does():
    q, k, v = (normal(3, 8).astype(np.float32) for _ in range(3))
    plain = ta.row_statistics(q, k, v)
    for bias in (np.ones((3, 3)), np.ones((3, 3)).tolist(), ta.ones((3, 3))):
        shifted = ta.row_statistics(q, k, v, bias=bias)
        assert shifted["lse"].dtype == np.float32
        assert np.allclose(shifted["lse"], plain["lse"] + 1.0) and np.allclose(
            shifted["entropy"], plain["entropy"], atol=1e-6
        )
    with pytest.raises(TypeError, match="write mask="):
        ta.row_statistics(q, k, v, bias=np.ones((3, 3), bool))
    with pytest.raises(ValueError, match="bias must broadcast"):
        ta.attention_block(q, k, v, slice(1), slice(1), bias=np.ones((4, 3)))


def test_rows_and_blocks_show_the_inside():
    q, k, v, g = (normal(2, 40, 8) for _ in range(4))
    leaves = [ta.Tensor(x, requires_grad=True) for x in (q, k, v)]
    scores = ((leaves[0] @ leaves[1].mT) * 3.0).retain_grad()
    weights = ta.softmax(scores).retain_grad()
    (weights @ leaves[2]).backward(g)
    p, ds = weights.numpy(), scores.grad.numpy()

    stats = ta.row_statistics(q, k, v, scale=3.0, gradient=g)
    assert np.allclose(stats["largest"], p.max(-1)) and np.allclose(stats["grad_norm"], np.linalg.norm(ds, axis=-1))
    assert np.allclose(stats["entropy"], -(p * np.log(p)).sum(-1)) and np.allclose(
        stats["lse"], np.log(np.exp(scores.numpy()).sum(-1))
    )

    part = ta.attention_block(q, k, v, slice(3, 9), slice(30, 40), scale=3.0, gradient=g)
    assert np.allclose(part["weights"], p[:, 3:9, 30:]) and np.allclose(part["scores_grad"], ds[:, 3:9, 30:])
    assert np.allclose(part["weights_grad"], weights.grad.numpy()[:, 3:9, 30:])
    for bad in (slice(0, 9, 2), 3):
        with pytest.raises(TypeError, match="expected rows as a slice without a step"):
            ta.attention_block(q, k, v, bad, slice(None))
    with pytest.raises(ValueError, match=r"expected gradient = dL/dout of shape \(2, 40, 8\)"):
        ta.row_statistics(q, k, v, gradient=g[0])
