"""The bilinear lens on matrices whose answer is known."""

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe


def test_tied_weights_are_symmetric_and_never_repel():
    for one in probe.lens(ta.nn.MultiHeadAttention(12, 3, seed=0, tie="qk", sigma=1.0))[""]:
        assert one.symmetric == pytest.approx(1.0) and one.antisymmetric == pytest.approx(0.0, abs=1e-20)
        assert one.rank == 4 and one.eigenvalues.min() > -1e-12
        np.testing.assert_allclose(one.eigenvalues[:4], one.singular, rtol=1e-10)


def test_a_rotation_is_antisymmetric():
    one = probe.form(np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]]))
    assert one.antisymmetric == 1.0 and one.symmetric == 0.0
    np.testing.assert_allclose(one.eigenvalues, 0.0)
    np.testing.assert_allclose(one.singular, 1.0)


def test_against_the_dense_matrix():
    rng = np.random.default_rng(0)
    W_Q, W_K = rng.standard_normal((2, 10, 3))
    one = probe.form(W_Q, W_K)
    M = W_Q @ W_K.T
    np.testing.assert_allclose(one.singular, np.linalg.svd(M, compute_uv=False)[:3], rtol=1e-12)
    np.testing.assert_allclose(one.eigenvalues, np.sort(np.linalg.eigvalsh((M + M.T) / 2))[::-1], atol=1e-12)
    assert one.symmetric + one.antisymmetric == pytest.approx(1.0)
    assert one.rank == 3 and one.condition == pytest.approx(one.singular[0] / one.singular[-1])


def test_a_lost_direction_shows_in_the_rank():
    W_Q = np.random.default_rng(0).standard_normal((6, 3))
    W_Q[:, 2] = W_Q[:, 0] + W_Q[:, 1]
    one = probe.form(W_Q, np.random.default_rng(1).standard_normal((6, 3)))
    assert one.rank == 2 and one.condition == np.inf
    assert probe.form(np.zeros((4, 2)), np.zeros((4, 2))).rank == 0


def test_the_form_gives_the_scores():
    mha = ta.nn.MultiHeadAttention(8, 2, seed=3, sigma=1.0).astype("float64")
    x = np.random.default_rng(0).standard_normal((5, 8))
    with probe.watch(mha, "scores") as seen:
        mha(ta.Tensor(x))
    for head, one in enumerate(probe.lens(mha)[""]):
        np.testing.assert_allclose(x @ one.matrix @ x.T, seen["scores"].head(head).value.numpy(), rtol=1e-10)


def test_packed_and_grouped_weights():
    plain = probe.lens(ta.nn.MultiHeadAttention(8, 2, seed=3))[""]
    packed = probe.lens(ta.nn.MultiHeadAttention(8, 2, seed=3, packed=True))[""]
    for a, b in zip(plain, packed):
        np.testing.assert_array_equal(a.matrix, b.matrix)
    grouped = probe.lens(ta.nn.MultiHeadAttention(8, 4, seed=3, n_kv_heads=2, sigma=1.0).astype("float64"))[""]
    assert len(grouped) == 4


def test_names_and_errors():
    model = ta.nn.Block(8, 2, seed=0)
    found = probe.lens(model)
    assert list(found.heads) == ["attn"] and "symmetric" in str(found) and "<table>" in found._repr_html_()
    with pytest.raises(KeyError, match="'attn'"):
        found["att"]
    with pytest.raises(ValueError, match="no attention"):
        probe.lens(ta.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="one shape"):
        probe.form(np.ones((2, 3)), np.ones((2, 2)))
