"""Sampling: what cannot be drawn is an error, what is impossible is never drawn."""

from __future__ import annotations

import numpy as np
import pytest

from tinygrad_attn.nn.sample import pick


@pytest.mark.parametrize("temperature", [0.0, 1.0, np.inf])
@pytest.mark.parametrize("row", [[np.nan, 0.0], [-np.inf, -np.inf]])
def test_no_token_to_draw_is_an_error(row, temperature) -> None:
    with pytest.raises(ValueError, match="no token to draw"):
        pick(np.array([row]), temperature, None, np.random.default_rng(0))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1e300, np.inf])
def test_a_logit_of_minus_infinity_is_never_drawn(temperature) -> None:
    drawn = pick(np.array([[-np.inf, 0.0, 0.0]] * 100), temperature, None, np.random.default_rng(0))
    assert set(drawn.tolist()) == {1, 2}
