"""Masks: composed as arrays, drawn as text, checked for what looks wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.attention import MaskFinding, picture


def kinds(mask, shape=None):
    return [finding.kind for finding in ta.check_mask(mask, shape)]


def test_causal_corners():
    assert_array_equal(ta.causal_mask(3), np.tri(3, dtype=bool))
    assert_array_equal(ta.causal_mask(2, 4, "top-left"), [[1, 0, 0, 0], [1, 1, 0, 0]])
    assert_array_equal(ta.causal_mask(2, 4, "bottom-right"), [[1, 1, 1, 0], [1, 1, 1, 1]])
    for align in (None, True, "left"):
        with pytest.raises(ValueError, match=rf'n_q = 2 and n_k = 4 expected align="bottom-right" .* got {align!r}'):
            ta.causal_mask(2, 4, align)


def test_a_mask_of_keys_per_batch_entry_gets_the_axes_that_the_scores_have():
    for lead, spelling in (((2,), "mask[:, None, :]"), ((2, 4), "mask[:, None, None, :]")):
        q = np.ones((*lead, 3, 5))
        with pytest.raises(ValueError) as error:
            ta.fused_attention(q, q, q, mask=np.ones((2, 3), bool))
        assert str(error.value).endswith(f"is written {spelling}")
        mask = np.ones((2, 3), bool).reshape(2, *(1,) * len(lead), 3)
        assert ta.fused_attention(q, q, q, mask=mask).shape == q.shape
    with pytest.raises(ValueError, match=r"= \(3, 3\), got \(2, 3\)$"):
        ta.fused_attention(q[0, 0], q[0, 0], q[0, 0], mask=np.ones((2, 3), bool))


def test_padding():
    assert_array_equal(ta.padding_mask([1, 3, 0]), [[[1, 0, 0]], [[1, 1, 1]], [[0, 0, 0]]])
    assert ta.padding_mask(np.array([[1], [2]]), 5).shape == (2, 1, 1, 5)  # with a head axis
    assert_array_equal(ta.padding_mask(2, 3), [[1, 1, 0]])
    for lengths, n_k, kind in (([4], 3, ValueError), ([-1], 3, ValueError), ([1.0], 3, TypeError)):
        with pytest.raises(kind, match="lengths"):
            ta.padding_mask(lengths, n_k)


def test_padding_is_the_same_as_leaving_the_keys_out():
    draws = np.random.default_rng(0)
    q, k, v = (draws.standard_normal((2, 4, 3)) for _ in range(3))
    out, _ = ta.scaled_dot_product_attention(q, k, v, ta.padding_mask([2, 4]))
    alone, _ = ta.scaled_dot_product_attention(q[0], k[0, :2], v[0, :2])
    np.testing.assert_allclose(out.numpy()[0], alone.numpy(), rtol=1e-12)


def test_masks_compose_as_arrays():
    window = ta.causal_mask(5) & ~np.tri(5, k=-2, dtype=bool)  # itself and the one before
    assert_array_equal(window.sum(1), [1, 2, 2, 2, 2])
    assert_array_equal(window[3], [0, 0, 1, 1, 0])
    document = np.array([0, 0, 1, 1, 1])
    packed = ta.causal_mask(5) & (document[:, None] == document)
    assert_array_equal(packed[2], [0, 0, 1, 0, 0])
    either = ta.causal_mask(3) | ta.padding_mask(1, 3)
    assert_array_equal(either, np.tri(3, dtype=bool))


# ---------------------------------------------------------------------------- pictures


def test_picture_of_a_batch():
    assert picture(ta.causal_mask(2) & ta.padding_mask([1, 2])).splitlines() == [
        "2 queries (down) x 2 keys (across)",
        "mask[0]",
        "0 █·",
        "1 █·",
        "mask[1]",
        "0 █·",
        "1 ██",
    ]
    assert picture(np.ones((20, 1, 1))).endswith("... and 12 more")
    assert picture(np.ones((0, 3)), most=2) == "0 queries (down) x 3 keys (across)"


def test_large_masks_are_shaded_tiles():
    lines = picture(ta.causal_mask(256)).splitlines()[1:]
    assert len(lines) == 64 and lines[1].split() == ["4", "█" + "▒" + "·" * 62]


@given(arrays(bool, array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)), st.integers(1, 12))
def test_any_mask_has_a_picture(mask, most):
    lines = picture(mask, most).splitlines()
    assert len(lines) <= 2 + 8 * (1 + most)
    if mask.ndim == 2 and mask.size and max(mask.shape) <= most:
        assert ["".join("█" if seen else "·" for seen in row) for row in mask] == [
            line.split()[1] for line in lines[1:]
        ]


# ---------------------------------------------------------------------------- the checker


@pytest.mark.parametrize(
    "mask, shape, expected",
    [
        (ta.causal_mask(4), (2, 3, 4, 4), []),
        (ta.padding_mask([2, 4]), (2, 4, 4), []),
        (np.ones((3, 4), bool), None, []),
        ([[1, 1], [0, 0]], None, ["empty rows", "wrong axis"]),
        (ta.causal_mask(3, 2, "bottom-right"), None, ["empty rows"]),
        (np.ones((4, 6), bool), (2, 6, 4), ["wrong axis"]),  # keys down, queries across
        (np.ones((2, 4), bool), (2, 3, 4, 4), ["wrong axis"]),  # one row of keys per batch entry
        (np.ones((2, 4, 4), bool), (2, 3, 4, 4), ["wrong axis"]),  # one mask per batch entry
        (np.array([[1], [1], [0]]), (3, 3), ["empty rows", "wrong axis"]),  # hides queries
        (np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]]), (3, 2, 3, 3), ["wrong axis"]),  # lengths, B = n_q
        (np.triu(np.ones((3, 3), bool), 1), None, ["empty rows", "blind to itself"]),  # inverted
        (np.tri(3, k=-1, dtype=bool), None, ["empty rows", "blind to itself"]),  # shifted by one
        (np.ones((5, 7), bool), (2, 4, 4), ["wrong shape"]),
        (np.ones((2, 2)), None, ["not boolean"]),
        (np.full((2, 2), 2), None, ["not boolean"]),
        (np.zeros((0, 0), bool), None, []),
        (True, (3, 3), []),
    ],
)
def test_findings(mask, shape, expected):
    assert kinds(mask, shape) == expected


def test_findings_say_which_rows():
    (found,) = ta.check_mask(np.array([[[1, 1, 0], [0, 0, 0]]]), (4, 2, 3))
    assert isinstance(found, MaskFinding) and found.rows == ((0, 1), (1, 1), (2, 1), (3, 1))
    assert str(found) == "empty rows: 4 of 8 queries may see no key, their output is 0: (0, 1), (1, 1), (2, 1), (3, 1)"


MASKS, SHAPES = (
    arrays(bool, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    array_shapes(min_dims=2, max_dims=4, max_side=4),
)


@given(MASKS, SHAPES)
def test_the_checker_agrees_with_attention_about_what_fits(mask, shape):
    q = np.zeros((*shape[:-2], shape[-2], 1))
    k = np.zeros((*shape[:-2], shape[-1], 1))
    misfit = any("does not broadcast" in finding.text for finding in ta.check_mask(mask, shape))
    try:
        _out, weights = ta.scaled_dot_product_attention(q, k, k, mask)
    except ValueError:
        assert misfit
        return
    assert not misfit
    empty = {row for finding in ta.check_mask(mask, shape) if finding.kind == "empty rows" for row in finding.rows}
    assert empty == {tuple(map(int, row)) for row in np.argwhere(weights.numpy().sum(-1) == 0)}
