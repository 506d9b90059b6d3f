"""Explicit attention over drawn and listed shapes, masks and bad inputs."""

from __future__ import annotations

import numpy as np
import pytest
from attention_written_out import leaf, textbook
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta

rng = np.random.default_rng(0)


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
    "plain": {"shapes": [(2, 3), (3, 3), (3, 2)]},
    "batched, d_v != d_k": {"shapes": [(2, 2, 3), (2, 3, 3), (2, 3, 1)]},
    "broadcast batch": {"shapes": [(2, 2, 2), (3, 2), (1, 3, 2)]},
    "one token": {"shapes": [(1, 2), (1, 2), (1, 2)]},
    "zero keys": {"shapes": [(2, 3), (0, 3), (0, 2)]},
    "zero queries": {"shapes": [(0, 3), (2, 3), (2, 2)]},
    "causal": {"shapes": [(3, 2)] * 3, "causal": True},
    "causal bottom-right": {"shapes": [(2, 2), (4, 2), (4, 2)], "causal": "bottom-right"},
    "causal top-left": {"shapes": [(2, 2), (3, 2), (3, 2)], "causal": "top-left"},
    "no key for row 0": {"shapes": [(3, 2), (2, 2), (2, 2)], "causal": "bottom-right"},
    "mask": {"shapes": [(2, 2), (3, 2), (3, 2)], "mask": [[1, 0, 1], [0, 0, 0]]},
    "key mask": {"shapes": [(2, 2, 2), (2, 3, 2), (2, 3, 2)], "mask": ta.padding_mask([1, 3])},
    "mask and causal": {"shapes": [(3, 2)] * 3, "mask": [[1, 0, 1]], "causal": True},
    "unscaled": {"shapes": [(2, 3), (3, 3), (3, 2)], "scale": 1.0},
    "NaN behind the mask": {"shapes": [(2, 2), (3, 2), (3, 2)], "mask": [[1, 1, 0], [1, 0, 0]], "nan": True},
    "bias": {"shapes": [(2, 2), (3, 2), (3, 2), (2, 3)]},
    "bias of one row, masked": {"shapes": [(2, 2, 2), (3, 2), (3, 2), (1, 3)], "mask": [[1, 1, 0], [0, 1, 1]]},
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
        ({"mask": np.ones((4, 2), bool)}, ValueError, r"\(2, 4\), got \(4, 2\)"),
        ({"mask": np.ones((5, 2, 4), bool)}, ValueError, "must broadcast"),
        ({"mask": np.ones((2, 4))}, TypeError, "bias="),
        ({"bias": np.ones((2, 4), bool)}, TypeError, "mask="),
        ({"bias": np.ones((5, 2, 4))}, ValueError, "bias must broadcast"),
        ({"causal": "left"}, ValueError, "bottom-right"),
        ({"dropout": 1.5}, ValueError, "between 0 and 1"),
        ({"scale": "1"}, TypeError, "scale: expected a number"),
        ({"scale": ta.Tensor(1.0, requires_grad=True)}, TypeError, r"for a learned one write q \* scale and scale=1.0"),
    ):
        with pytest.raises(kind, match=text):
            function(q, k, k, **arguments)


@pytest.mark.parametrize("function", [ta.scaled_dot_product_attention, ta.fused_attention])
def test_integers_give_float32(function):
    q, v = np.array([[1, 0], [0, 1]]), np.array([[1, 2], [3, 5]])
    found, right = function(q, q, v), function(q.astype("float32"), q.astype("float32"), v.astype("float32"))
    found, right = (x[0] if isinstance(x, tuple) else x for x in (found, right))
    assert found.dtype == np.float32 and (found.data == right.data).all() and (found.data % 1 != 0).all()


def test_dtypes_never_widen_and_promote_only_between_tensors():
    q = ta.Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    out, weights = ta.scaled_dot_product_attention(q, q, q, bias=np.zeros((2, 2)))
    assert out.dtype == weights.dtype == np.float32
    wide = ta.Tensor(np.ones((2, 3)))
    out, weights = ta.scaled_dot_product_attention(q, wide, wide)
    assert out.dtype == weights.dtype == np.float64
    out.sum().backward()
    assert q.grad.dtype == np.float32
