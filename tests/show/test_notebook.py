"""What a notebook shows of tensors and tables."""

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.catalogue import EXPERIMENTS
from tinygrad_attn.show import Column, Table


def test_attention_weights_are_drawn_as_a_matrix():
    q = ta.randn(2, 4, 8)
    _, weights = ta.scaled_dot_product_attention(q, q, q)
    text = weights._repr_html_()
    assert "weights (2, 4, 4)" in text and "the first of 2 matrices" in text
    assert text.count("<tr>") == 4 and text.count("<td") == 16
    assert f"{weights.numpy()[0, 1, 2]:.3g}</td>" in text


def test_every_tensor_can_be_drawn():
    for values in (3.0, [], [1.0, -2.0], np.zeros((0, 3)), np.zeros((0, 2, 2)), np.zeros((3, 2, 0)), np.ones((20, 30)), [True],
                   [[np.nan, np.inf, -np.inf]], np.float16(65504)):  # fmt: skip
        text = ta.Tensor(values)._repr_html_()
        assert ("nan</td>" in text) == bool(np.isnan(values).any()) if np.size(values) else True
        assert text.startswith("<div>") and text.count("<td") == min(np.size(values), 256)
    assert "<b>" not in ta.Tensor([1.0]).named("<b>")._repr_html_()


def test_a_table_is_drawn_in_a_notebook_and_printed_at_the_prompt():
    plain = Table("Squares", [Column("x", "x")], [{"x": 3}])
    for table in (plain, EXPERIMENTS["dictionary"](seeds=1)):
        assert (
            repr(table) == str(table)
            and "<table" in table._repr_html_()
            and table.title.split(":")[0] in table._repr_html_()
        )
