"""Scaled dot-product attention: the lesson's numbers, the field's bugs, the shapes it must take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.mode import watching

rng = np.random.default_rng(0)


def leaf(x):
    return ta.Tensor(np.asarray(x, np.float64), requires_grad=True)


def textbook(q, k, v, keep=None, scale=None, bias=0.0):
    """float64 NumPy; rows without a key give 0."""
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    keep = np.broadcast_to(True if keep is None else keep, s.shape)
    e = np.where(keep, np.exp(s - s.max(-1, keepdims=True, initial=-1e9)), 0.0)
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1.0, total)
    return p @ v, p


# ---------------------------------------------------------------------------- the lessons' numbers


def test_worked_example_of_two_tokens():
    """X = I, W_Q = I, W_K = swap, W_V = diag(2, 3)."""
    X, W_Q, W_K, W_V = np.eye(2), np.eye(2), np.eye(2)[::-1], np.diag([2.0, 3.0])
    out, weights = ta.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V, scale=1.0)
    assert_allclose(weights.numpy(), [[0.26894, 0.73106], [0.73106, 0.26894]], atol=5e-6)
    assert_allclose(out.numpy(), [[0.53788, 2.19318], [1.46212, 0.80682]], atol=5e-6)
    out, weights = ta.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V)
    assert_allclose(weights.numpy()[0], [0.33024, 0.66976], atol=5e-6)
    assert_allclose(out.numpy()[0], [0.66048, 2.00928], atol=5e-6)


@pytest.mark.parametrize("d_k, std", [(16, 4.0), (64, 8.0), (256, 16.0), (1024, 32.0)])
def test_score_variance_is_d_k_and_scaling_makes_it_one(d_k, std):
    draws = np.random.default_rng(d_k)
    q, k = draws.standard_normal((500, 1, d_k)), draws.standard_normal((500, 16, d_k))
    seen = {}
    with watching(lambda name, x: seen.update({name: x.numpy()})):
        ta.scaled_dot_product_attention(q, k, np.ones((500, 16, 1)))
    assert abs(seen["scores"].mean()) < 0.05 * std
    assert_allclose(seen["scores"].std(), std, rtol=0.03)
    assert_allclose(seen["scaled"].std(), 1.0, rtol=0.03)


# d_k: std, entropy / log n, median Jacobian norm, median and dead share (< 1e-3) of row norms of dL/dS
UNSCALED = {
    16: (4.0, 0.33, 0.33, 0.185, 0.014),
    64: (8.0, 0.15, 0.11, 0.054, 0.16),
    256: (16.0, 0.07, 6.6e-3, 3.3e-3, 0.43),
    1024: (32.0, 0.035, 1.8e-5, 9e-6, 0.67),
}


@pytest.mark.parametrize("d_k", UNSCALED)
@pytest.mark.parametrize("scaled", [False, True])
def test_saturation_shows_in_the_score_gradient(d_k, scaled):
    """n = 16 keys, q, k, v ~ N(0, 1), d_v = 16, upstream gradient N(0, 1) / sqrt(d_v); 4,000 rows."""
    draws = np.random.default_rng(d_k)
    q, k, v, g = (draws.standard_normal(s) for s in ((4000, 1, d_k), (4000, 16, d_k), (4000, 16, 16), (4000, 1, 16)))
    seen = {}
    with watching(lambda name, x: seen.update({name: x})):
        out, weights = ta.scaled_dot_product_attention(leaf(q), k, v, scale=None if scaled else 1.0)
    at = seen["scaled"]  # the softmax's own input: dL/dS
    at.retain_grad()
    out.backward(g / 4.0)
    p, norms = weights.numpy()[:, 0], np.linalg.norm(at.grad.numpy()[:, 0], axis=-1)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(-1).mean() / np.log(16)
    jacobian = np.sqrt(((p[:, :, None] * (np.eye(16) - p[:, None, :])) ** 2).sum((1, 2)))
    std = at.numpy().std()
    found = np.array([std, entropy, np.median(jacobian), np.median(norms)])
    dead = (norms < 1e-3).mean()
    if scaled:
        assert_allclose(found, [1.0, 0.85, 0.304, 0.26], rtol=0.06)
        assert dead == 0
    else:
        # the smallest medians are set by the far tail of saturated rows: a factor, not a per cent
        assert_allclose(found[:2], UNSCALED[d_k][:2], rtol=0.1)
        assert_allclose(np.log(found[2:]), np.log(UNSCALED[d_k][2:4]), atol=0.7 if d_k == 1024 else 0.3)
        assert abs(dead - UNSCALED[d_k][4]) < 0.03


def test_temperature_moves_the_entropy_from_log_n_to_0():
    q, k = rng.standard_normal((5, 4)), rng.standard_normal((7, 4))

    def entropy(scale):
        p = ta.scaled_dot_product_attention(q, k, np.ones((7, 1)), scale=scale)[1].numpy().astype(np.float64)
        return -(p * np.log(np.maximum(p, 1e-300))).sum(-1)

    assert_allclose(entropy(0.0), np.log(7))
    assert_allclose(entropy(1e6), 0.0, atol=1e-12)
    assert (np.diff([entropy(s).mean() for s in (0, 0.1, 0.5, 1, 4, 50)]) < 0).all()


def test_soft_lookup_becomes_the_hard_one():
    keys, values = np.eye(4), np.array([[3.0], [1.0], [4.0], [1.5]])
    for i in range(4):
        out, _ = ta.scaled_dot_product_attention(keys[i : i + 1], keys, values, scale=1000.0)
        assert out.item() == values[i, 0]


def test_identity_values_return_the_weights_not_a_row():
    """Slip 1: with W_V = I the worked example gives (0.269, 0.731), not V_1."""
    X = np.eye(2)
    out, _ = ta.scaled_dot_product_attention(X, X[::-1], X, scale=1.0)
    assert_allclose(out.numpy()[0], [0.269, 0.731], atol=5e-4)


def test_parameter_free_attention_has_nothing_to_train():
    x = rng.standard_normal((4, 3))
    out, weights = ta.scaled_dot_product_attention(x, x, x, scale=1.0)
    assert not out.requires_grad
    assert_allclose(out.numpy(), textbook(x, x, x, scale=1.0)[0], rtol=1e-12)
    assert_array_equal(out.shape, (4, 3))


def test_names_in_order_with_shapes_and_gradients():
    q, k, v = (leaf(rng.standard_normal(s)) for s in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))
    seen = []
    with watching(lambda name, x: seen.append((name, x.retain_grad() if x.requires_grad else x))):
        out, _ = ta.scaled_dot_product_attention(q, k, v, mask=np.ones((3, 5), bool))
    out.sum().backward()
    assert [name for name, _ in seen] == ["q", "k", "v", "scores", "scaled", "masked", "weights", "mix"]
    shapes = [x.shape for _, x in seen]
    assert shapes == [(2, 3, 4), (2, 5, 4), (2, 5, 6), *[(2, 3, 5)] * 4, (2, 3, 6)]
    assert all(x.grad.shape == x.shape for _, x in seen)


def test_all_scores_come_from_one_product():
    q = leaf(rng.standard_normal((6, 4)))
    out, _ = ta.scaled_dot_product_attention(q, q, q)
    names = [step.node.op.name for step in ta.steps(out.sum()) if step.node.op]
    assert names.count("matmul") == 2  # q k^T, and weights v


# ---------------------------------------------------------------------------- the field's bugs


def test_case_a1_a_row_without_keys_does_not_poison_the_shared_projection():
    x, W = leaf([[1, 0.5], [-1, 2], [0.3, -0.7]]), leaf([[0.2, -0.4], [0.7, 0.1]])
    h = x @ W
    out, weights = ta.scaled_dot_product_attention(h, h, h, mask=[[1, 0, 0], [0, 0, 0], [1, 0, 1]])
    (out[[0, 2]] * np.array([[1, 2], [-1, 0.5]])).sum().backward()
    assert_allclose(out.numpy(), [[0.55, -0.35], [0, 0], [-0.00730908, -0.25901076]], atol=5e-9)
    assert_allclose(W.grad.numpy(), [[0.39936485, 2.33423744], [0.90340399, 0.93011667]], atol=5e-9)
    assert_allclose(x.grad.numpy(), [[-0.77068843, 0.67847498], [0, 0], [-0.27711192, -0.55165281]], atol=5e-9)
    assert_array_equal(weights.numpy()[1], 0)


def test_case_a5_float16_scores_do_not_overflow():
    q = np.full((1, 64), 32.0)
    k = np.repeat(q, 2, axis=0)
    k[1, 0] = 31.0
    q, k = ta.Tensor(q, True, dtype="float16"), ta.Tensor(k, True, dtype="float16")
    out, weights = ta.scaled_dot_product_attention(q, k, ta.Tensor([[1.0], [0.0]], dtype="float16"))
    out.sum().backward()
    assert out.dtype == weights.dtype == q.grad.dtype == np.float16
    assert_allclose(weights.numpy(), [[0.98201379, 0.01798621]], rtol=2e-3)
    assert_allclose(q.grad.numpy()[0, 0], 0.00220784, rtol=2e-3)
    assert_array_equal(q.grad.numpy()[0, 1:], 0)


def test_case_j1_the_corner_must_be_said():
    q, k, v = np.zeros((2, 1)), np.zeros((4, 1)), leaf([[1.0], [2], [4], [8]])
    with pytest.raises(ValueError, match=r"n_q = 2 and n_k = 4.*bottom-right"):
        ta.scaled_dot_product_attention(q, k, v, causal=True)
    out, _ = ta.scaled_dot_product_attention(q, k, v, causal="bottom-right")
    out.sum().backward()
    assert_allclose(out.numpy()[:, 0], [7 / 3, 3.75])
    assert_allclose(v.grad.numpy()[:, 0], [0.58333333, 0.58333333, 0.58333333, 0.25], atol=5e-9)
    v.grad = None
    out, _ = ta.scaled_dot_product_attention(q, k, v, causal="top-left")
    out.sum().backward()
    assert_allclose(out.numpy()[:, 0], [1, 1.5])
    assert_allclose(v.grad.numpy()[:, 0], [1.5, 0.5, 0, 0])
    for corner, right in (("bottom-right", 3.75), ("top-left", 1.0)):
        assert ta.scaled_dot_product_attention(q[:1], k, v, causal=corner)[0].item() == right
        assert_array_equal(ta.causal_mask(2, 4, corner), np.tri(2, 4, 2 if corner == "bottom-right" else 0, dtype=bool))
    tall, _ = ta.scaled_dot_product_attention(np.zeros((3, 1)), k[:2], v[:2], causal="bottom-right")
    assert_allclose(tall.numpy()[:, 0], [0, 1, 1.5])


def test_case_j2_true_means_may_attend():
    q, v = np.zeros((3, 1)), np.array([[1.0], [2], [4]])
    keep = np.tri(3, dtype=bool)
    for mask in (keep, keep.astype(int), keep.tolist(), ta.Tensor(keep)):
        assert_allclose(ta.scaled_dot_product_attention(q, q, v, mask)[0].numpy()[:, 0], [1, 1.5, 7 / 3])
    with pytest.raises(TypeError, match="bias="):
        ta.scaled_dot_product_attention(q, q, v, keep.astype(float))
    with pytest.raises(ValueError, match="0 and 1"):
        ta.scaled_dot_product_attention(q, q, v, keep * 2)
    bias = np.where(keep, 0.0, -np.inf)
    assert_allclose(ta.scaled_dot_product_attention(q, q, v, bias=bias)[0].numpy()[:, 0], [1, 1.5, 7 / 3])


def test_case_j4_d_v_is_not_d_k():
    q, k, v = leaf([[1, 2]]), leaf(np.eye(2)), leaf([[1, 0, 2], [3, 1, 0]])
    out, p = ta.scaled_dot_product_attention(q, k, v)
    (out * np.array([[1.0, -1, 2]])).sum().backward()
    assert_allclose(p.numpy(), [[0.33023845, 0.66976155]], atol=5e-9)
    assert_allclose(out.numpy(), [[2.3395231, 0.66976155, 0.6604769]], atol=5e-8)
    assert_allclose(q.grad.numpy(), [[0.46919579, -0.46919579]], atol=5e-9)
    assert_allclose(k.grad.numpy(), [[0.46919579, 0.93839158], [-0.46919579, -0.93839158]], atol=5e-9)
    assert_allclose(v.grad.numpy(), [[0.33023845, -0.33023845, 0.6604769], [0.66976155, -0.66976155, 1.3395231]], atol=5e-8)
    uniform, _ = ta.scaled_dot_product_attention(q, k, v, scale=0)
    assert_allclose(uniform.numpy(), [[2, 0.5, 1]])


def test_case_j5_dropout_on_weights(monkeypatch):
    """p = [.5, .3, .2], kept [1, 0, 1], rate 0.2: the weights shown are those before dropout."""
    from tinygrad_attn.attention import pattern

    monkeypatch.setattr(pattern, "bits", lambda *_: np.array([[2**32 - 1, 0, 2**32 - 1]], np.uint32))
    v, scores = leaf([[1.0], [2], [4]]), leaf(np.log([[0.5, 0.3, 0.2]]))
    out, weights = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), v, bias=scores, dropout=0.2)
    weights.retain_grad()
    out.sum().backward()
    assert_allclose(out.item(), 1.625)
    assert_allclose(weights.numpy(), [[0.5, 0.3, 0.2]])
    assert_allclose(v.grad.numpy()[:, 0], [0.625, 0, 0.25])
    assert_allclose(weights.grad.numpy(), [[1.25, 0, 5]])
    out, _ = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), v, bias=scores)
    assert_allclose(out.item(), 1.9)
    out, _ = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), v, dropout=1.0)
    v.grad = None
    out.sum().backward()
    assert out.item() == 0 and not v.grad.numpy().any()


def test_case_j8_rows_sum_to_one_not_columns():
    s, v = np.array([[0.0, 1], [2, 0]]), np.array([[1.0], [10]])
    out, p = ta.scaled_dot_product_attention(np.eye(2), s.T, v, scale=1.0)
    assert_allclose(out.numpy()[:, 0], [7.57952721, 2.0728263], atol=5e-8)
    assert_allclose(p.numpy().sum(-1), 1)
    z = leaf([[1.0, 2, 3]])
    out, p = ta.scaled_dot_product_attention(np.ones((1, 1)), np.zeros((3, 1)), np.array([[1.0], [2], [4]]), [1, 1, 0], bias=z)
    out.sum().backward()
    assert_allclose(p.numpy(), [[0.26894142, 0.73105858, 0]], atol=5e-9)
    assert_allclose(z.grad.numpy(), [[-0.19661193, 0.19661193, 0]], atol=5e-9)


# ---------------------------------------------------------------------------- properties, over many shapes


@st.composite
def problems(draw):
    """q, k, v, mask: broadcasting batch axes, any lengths from 0 or 1, some rows without keys."""
    n_q, n_k = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    d_k, d_v = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    batch = draw(st.sampled_from([(), (2,), (2, 3)]))
    kv_batch = draw(st.sampled_from([batch, batch[1:], (1,) * len(batch)]))
    seed = draw(st.integers(0, 2**31))
    draws = np.random.default_rng(seed)
    q, k, v = (draws.standard_normal(s) * 2 for s in ((*batch, n_q, d_k), (*kv_batch, n_k, d_k), (*kv_batch, n_k, d_v)))
    mask_shape = draw(st.sampled_from([None, (n_q, n_k), (n_k,), (n_q, 1), (*batch, n_q, n_k), (*batch, 1, n_k)]))
    mask = None if mask_shape is None else draws.random(mask_shape) < draw(st.sampled_from([0.3, 0.7]))
    return q, k, v, mask


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([None, 1.0, 0.0, 0.3]))
def test_equals_the_textbook(problem, scale):
    q, k, v, mask = problem
    out, weights = ta.scaled_dot_product_attention(*map(ta.Tensor, (q, k, v)), mask, scale=scale)
    right_out, right_weights = textbook(q, k, v, mask, scale)
    assert_allclose(out.numpy(), right_out, rtol=1e-12, atol=1e-12)
    assert_allclose(weights.numpy(), right_weights, rtol=1e-12, atol=1e-12)
    assert out.dtype == np.float64 and out.shape == right_out.shape
    keep = np.broadcast_to(True if mask is None else mask, weights.shape)
    assert_array_equal(weights.numpy()[~keep], 0)
    assert_allclose(weights.numpy().sum(-1), keep.any(-1).astype(float), atol=1e-12)
    if out.size and k.shape[-2] and keep.all():  # each output row is a convex combination of values
        low, high = v.min(-2, keepdims=True), v.max(-2, keepdims=True)
        assert (out.numpy() >= low - 1e-12).all() and (out.numpy() <= high + 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(problems(), st.booleans())
def test_a_hidden_pair_might_as_well_be_nan(problem, infinite):
    """NaN in every key and value that some query may not see: rows that do not see it, and their gradients,
    are as if it were absent."""
    q, k, v, mask = problem
    if mask is None or mask.size == 0 or q.size == 0:
        return
    unseen = ~np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])).any(-2)  # (..., n_k): nobody sees these
    unseen = unseen.all(tuple(range(unseen.ndim - 1)))
    bad = np.inf if infinite else np.nan
    dirty_k, dirty_v = np.where(unseen[:, None], bad, k), np.where(unseen[:, None], bad, v)
    found = []
    for keys, values in ((k, v), (dirty_k, dirty_v)):
        tensors = [leaf(x) for x in (q, keys, values)]
        out, _ = ta.scaled_dot_product_attention(*tensors, mask)
        (out * np.cos(np.arange(out.size)).reshape(out.shape)).sum().backward()
        found.append([out.numpy(), *(x.grad.numpy() for x in tensors)])
    for clean, dirty in zip(*found):
        assert_allclose(dirty, clean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("what", ["k", "v", "q"])
def test_nan_reaches_exactly_the_rows_that_may_see_it(what):
    q, k, v = (rng.standard_normal((4, 3)) for _ in range(3))
    causal = np.tri(4, dtype=bool)

    def run(q, k, v):
        tensors = [leaf(x) for x in (q, k, v)]
        out, weights = ta.scaled_dot_product_attention(*tensors, causal=True)
        out.sum().backward()
        return out.numpy(), weights.numpy(), [x.grad.numpy() for x in tensors]

    clean = run(q, k, v)
    q2, k2, v2 = q.copy(), k.copy(), v.copy()
    {"q": q2, "k": k2, "v": v2}[what][2, 1] = np.nan
    dirty = run(q2, k2, v2)
    rows = {"q": [2], "k": [2, 3], "v": [2, 3]}[what]
    others = [i for i in range(4) if i not in rows]
    assert np.isnan(dirty[0][rows]).any(-1).all()
    assert_allclose(dirty[0][others], clean[0][others], rtol=1e-12)
    assert_allclose(dirty[2][0][others], clean[2][0][others], rtol=1e-12, atol=1e-15)
    assert_array_equal(dirty[1][~causal], 0)
    # key 3 is seen by query 3 alone: its gradient is NaN only where that row is
    assert np.isnan(dirty[2][2][3]).any() == (3 in rows and what != "v")


GRAD_CASES = {
    "plain": dict(shapes=[(2, 3), (3, 3), (3, 2)]),
    "batched, d_v != d_k": dict(shapes=[(2, 2, 3), (2, 3, 3), (2, 3, 1)]),
    "broadcast batch": dict(shapes=[(2, 2, 2), (3, 2), (1, 3, 2)]),
    "one token": dict(shapes=[(1, 2), (1, 2), (1, 2)]),
    "zero keys": dict(shapes=[(2, 3), (0, 3), (0, 2)]),
    "zero queries": dict(shapes=[(0, 3), (2, 3), (2, 2)]),
    "causal": dict(shapes=[(3, 2)] * 3, causal=True),
    "causal bottom-right": dict(shapes=[(2, 2), (4, 2), (4, 2)], causal="bottom-right"),
    "causal top-left": dict(shapes=[(2, 2), (3, 2), (3, 2)], causal="top-left"),
    "no key for row 0": dict(shapes=[(3, 2), (2, 2), (2, 2)], causal="bottom-right"),
    "mask": dict(shapes=[(2, 2), (3, 2), (3, 2)], mask=[[1, 0, 1], [0, 0, 0]]),
    "key mask": dict(shapes=[(2, 2, 2), (2, 3, 2), (2, 3, 2)], mask=ta.padding_mask([1, 3])),
    "mask and causal": dict(shapes=[(3, 2)] * 3, mask=[[1, 0, 1]], causal=True),
    "unscaled": dict(shapes=[(2, 3), (3, 3), (3, 2)], scale=1.0),
    "NaN behind the mask": dict(shapes=[(2, 2), (3, 2), (3, 2)], mask=[[1, 1, 0], [1, 0, 0]], nan=True),
    "bias": dict(shapes=[(2, 2), (3, 2), (3, 2), (2, 3)]),
    "bias of one row, masked": dict(shapes=[(2, 2, 2), (3, 2), (3, 2), (1, 3)], mask=[[1, 1, 0], [0, 1, 1]]),
}


@pytest.mark.parametrize("name", GRAD_CASES)
def test_gradients_to_order_two(name):
    case = dict(GRAD_CASES[name])
    draws = np.random.default_rng(1)
    arrays = [draws.standard_normal(s) for s in case.pop("shapes")]
    nan = case.pop("nan", False)

    def attention(q, k, v, bias=None):
        if nan:  # the last key and value are never seen
            k, v = (ta.concatenate([x[:-1], ta.Tensor(np.full((1, 2), np.nan))], axis=0) for x in (k, v))
        return ta.scaled_dot_product_attention(q, k, v, bias=bias, **case)

    ta.testing.check_grads(attention, *arrays, order=2)


# ---------------------------------------------------------------------------- bad inputs


@pytest.mark.parametrize(
    "shapes, text",
    [
        (((2, 3), (4, 2), (4, 2)), "same last length d_k; got q (2, 3), k (4, 2)"),
        (((2, 3), (4, 3), (5, 2)), "same number of keys n_k"),
        (((3,), (4, 3), (4, 2)), "expected q (..., n_q, d_k)"),
        (((2, 2, 3), (3, 4, 3), (3, 4, 2)), "batch and head axes that broadcast"),
    ],
)
@pytest.mark.parametrize("function", [ta.scaled_dot_product_attention, ta.fused_attention])
def test_shapes_that_do_not_fit(function, shapes, text):
    with pytest.raises(ValueError) as error:
        function(*(np.ones(s) for s in shapes))
    assert text in str(error.value) and function.__name__ in str(error.value)


@pytest.mark.parametrize("function", [ta.scaled_dot_product_attention, ta.fused_attention])
def test_masks_and_settings_that_do_not_fit(function):
    q, k = np.ones((2, 3)), np.ones((4, 3))
    for arguments, kind, text in (
        (dict(mask=np.ones((4, 2), bool)), ValueError, r"\(2, 4\), got \(4, 2\)"),
        (dict(mask=np.ones((5, 2, 4), bool)), ValueError, "must broadcast"),
        (dict(mask=np.ones((2, 4))), TypeError, "bias="),
        (dict(bias=np.ones((2, 4), bool)), TypeError, "mask="),
        (dict(bias=np.ones((5, 2, 4))), ValueError, "bias must broadcast"),
        (dict(causal="left"), ValueError, "bottom-right"),
        (dict(dropout=1.5), ValueError, "between 0 and 1"),
    ):
        with pytest.raises(kind, match=text):
            function(q, k, k, **arguments)


def test_dtypes_never_widen_and_promote_only_between_tensors():
    q = ta.Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    out, weights = ta.scaled_dot_product_attention(q, q, q, bias=np.zeros((2, 2)))
    assert out.dtype == weights.dtype == np.float32
    wide = ta.Tensor(np.ones((2, 3)))
    out, weights = ta.scaled_dot_product_attention(q, wide, wide)
    assert out.dtype == weights.dtype == np.float64
    out.sum().backward()
    assert q.grad.dtype == np.float32
