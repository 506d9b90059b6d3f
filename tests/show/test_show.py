"""Tables, traces and pictures."""

import json

import numpy as np
import pytest
from rich.console import Console

import tinygrad_attn as ta
from tinygrad_attn.probe.trace import trace
from tinygrad_attn.show.numbers import number, percent
from tinygrad_attn.show.table import Column, Table, Tabled


@pytest.fixture
def table():
    columns = [Column("name", "name", left=True), Column("x", "a\nnumber", "{:.1f}".format)]
    return Table("Numbers", columns, [{"name": "one, two", "x": 1 / 3}, {"name": "b", "x": 20.0}], ["a note"])


def test_plain_text_is_aligned_and_titles_stand_at_the_bottom(table):
    expected = ["Numbers", "               a", "name      number", "one, two     0.3", "b           20.0", "a note"]
    assert str(table).splitlines() == expected


def test_csv_keeps_full_precision_and_quotes(table, tmp_path):
    text = table.to_csv(tmp_path / "t.csv")
    assert text == (tmp_path / "t.csv").read_text() == f'name,x\n"one, two",{1 / 3}\nb,20.0\n'


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_console_of_any_width_shows_every_cell_and_no_colour_in_a_pipe(table, width):
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    assert all(text in captured.get() for text in ("Numbers", "one, two", "0.3", "20.0", "a note"))
    assert "\x1b" not in captured.get() and max(map(len, captured.get().splitlines())) <= width


def test_trace_lists_the_steps_of_attention_in_order_with_their_gradients():
    mha = ta.nn.MultiHeadAttention(8, 2, seed=0, causal=True)
    x = np.random.default_rng(0).standard_normal((1, 3, 8)).astype(np.float32)
    seen = trace(lambda: (mha(x) ** 2).sum())
    assert [s.name for s in seen] == ["q", "k", "v", "scores", "scaled", "masked", "weights", "mix", "out"]
    by_name = {s.name: s for s in seen}
    assert by_name["q"].shape == (1, 2, 3, 4) and by_name["scores"].shape == (1, 2, 3, 3)
    assert all(s.gradient_rms > 0 and np.isfinite(s.value_rms) for s in seen)
    assert by_name["scores"].gradient_rms == pytest.approx(by_name["scaled"].gradient_rms / 2, rel=1e-5)  # d_k = 4


def test_trace_of_what_needs_no_gradient_says_none():
    x = ta.Tensor([1.0], requires_grad=True)

    def loss():
        constant = (ta.ones(1) * 2).named("constant")
        return (x * constant).named("product").sum()

    assert [(s.name, s.gradient_rms) for s in trace(loss)] == [("constant", None), ("product", 1.0)]


def test_pictures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from tinygrad_attn.show.pictures import attention_picture, gradient_picture

    weights = np.tril(np.ones((4, 8, 8))) / np.arange(1, 9)[:, None]
    attention_picture(weights, list("abcdefgh"), "x").savefig(tmp_path / "a.png")
    rng = np.random.default_rng(0)
    norms = {(d_k, scaled): 10.0 ** rng.uniform(-14, 0, 200) for d_k in (16, 64) for scaled in (True, False)}
    norms[16, True] = np.zeros(200)  # a true 0 has no logarithm
    gradient_picture(norms).savefig(tmp_path / "g.png")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [list("anphemj=x"), ["everyone", "work", ",", "he", "work", ",", "everyone", "___"], ["a"]]
)
def test_maps_of_several_layers_keep_apart(words):
    pytest.importorskip("matplotlib")
    from tinygrad_attn.show.training import heads_picture

    n = len(words)
    figure = heads_picture(np.tril(np.ones((2, 3, n, n))), words)
    figure.canvas.draw()
    maps = [axes.get_tightbbox() for axes in figure.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(maps) for b in maps[:i])
    assert all(figure.bbox.contains(*corner) for box in maps for corner in (box.min, box.max))


def test_json_has_no_nan_and_html_has_no_markup_of_the_values(tmp_path):
    table = Table("<T>", [Column("x", "x")], [{"x": float("nan")}, {"x": "<b>"}], ["&"])
    assert json.loads(table.to_json(tmp_path / "t.json")) == json.loads((tmp_path / "t.json").read_text())
    assert [row["x"] for row in json.loads(table.to_json())["rows"]] == [None, "<b>"]
    text = table.to_html(tmp_path / "t.html", level=3)
    assert "<h3>&lt;T&gt;</h3>" in text and "&lt;b&gt;" in text and "<b>" not in text and "&amp;" in text
    assert (tmp_path / "t.html").read_text().startswith('<!doctype html>\n<html lang="en">')


def test_what_has_a_table_is_shown_by_it(table):
    class Found(Tabled):
        def table(self):
            return table

    assert str(Found()) == str(table) and Found()._repr_html_() == table.to_html()


def test_numbers_and_shares_that_are_not_there_are_a_dash():
    assert [number(x) for x in (None, float("nan"), 1.23456, -0.0)] == ["-", "-", "1.23", "-0"]
    assert number(float("nan"), nan="nan") == "nan" and number(float("inf"), 2) == "inf"
    assert [percent(x) for x in (None, float("nan"), 0.5, 0.00004, 1)] == ["-", "-", "50.0%", "0.00%", "100%"]
