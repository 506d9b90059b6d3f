"""Attention's corners, found by attack: NaN rows, dropout where v has more heads, dtypes, float16 gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta

FORMS = [lambda *a, **k: ta.scaled_dot_product_attention(*a, **k)[0], ta.fused_attention]


@pytest.mark.parametrize("attention", FORMS)
@pytest.mark.parametrize("broken", ["q", "k"])
def test_a_nan_row_leaves_the_keys_alone_that_it_may_not_see(attention, broken) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((5, 4)) for name in "qkv"}
    arrays[broken][1] = np.nan
    q, k, v = (ta.Tensor(a, requires_grad=True) for a in arrays.values())
    attention(q, k, v, causal=True).sum().backward()
    grad = v.grad.numpy()
    first = 2 if broken == "q" else 5  # query 1 sees keys 0 and 1; every query from 1 on sees key 1
    assert np.isfinite(grad[first:]).all() and np.isnan(grad[:2]).any()


@pytest.mark.parametrize(("heads", "of_v", "n"), [((2,), (2, 2), 300), ((1,), (4,), 140), ((2,), (3, 2), 8)])
def test_dropout_where_v_has_axes_of_its_own(heads, of_v, n) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (ta.Tensor(rng.standard_normal((*lead, n, 8))) for lead in (heads, heads, of_v))
    found = []
    for attention in FORMS:
        ta.manual_seed(0)
        found.append(attention(q, k, v, dropout=0.3).numpy())
    np.testing.assert_allclose(*found, atol=1e-12)


@pytest.mark.parametrize("attention", [*FORMS])
def test_arrays_take_the_tensors_dtype(attention) -> None:
    kv = np.ones((4, 3))
    assert attention(ta.ones((2, 3), requires_grad=True), kv, kv).dtype == "float32"


def test_arrays_take_the_tensors_dtype_in_additive_attention_too() -> None:
    kv, W = np.ones((4, 3)), np.ones((3, 2))
    out, _ = ta.additive_attention(ta.ones((2, 3), requires_grad=True), kv, kv, W, W, np.ones(2))
    assert out.dtype == "float32"


@pytest.mark.parametrize("attention", FORMS)
def test_float16_gradients_that_pass_65504_on_the_way(attention) -> None:
    rng = np.random.default_rng(0)
    q, k = (ta.Tensor(rng.standard_normal((3, 4)).astype("float16"), requires_grad=True) for _ in range(2))
    v = ta.Tensor((np.random.default_rng(1).standard_normal((3, 4)) * 2e4).astype("float16"), requires_grad=True)
    out = attention(q, k, v)
    out.backward(np.full((3, 4), 4.0))
    assert out.dtype == "float16" and np.isfinite(q.grad.numpy()).all()
