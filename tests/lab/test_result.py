"""The table that experiments return: printed, drawn, plotted, written, in two languages."""

import numpy as np
import pytest

from tinygrad_attn.lab.result import LabTable, Picture, Verdict, clearly_above, mean_and_spread
from tinygrad_attn.lab.words import speaker
from tinygrad_attn.show.table import Column


def example(language="en"):
    return LabTable(
        "Squares <b>",
        [Column("x", "x"), Column("y", "y", "{:.1f}".format), Column("kind", "kind", left=True)],
        [{"x": x, "y": x * x, "kind": kind} for kind in ("a", "b") for x in (1.0, 2.0)],
        ["a note"],
        units={"y": "cm"},
        verdicts=[Verdict("y is x.", "4", False)],
        picture=Picture("x", "y", by=("kind",), log_x=True),
        main=lambda row: row["x"] > 1,
        language=language,
    )


def test_text_shows_the_main_rows_units_and_verdicts():
    text = str(example())
    assert text.splitlines()[0] == "Squares <b>" and "cm" in text
    assert "1.0" not in text and text.count("4.0") == 2
    assert "DOES NOT HOLD: y is x. Measured: 4." in text
    assert "NO SE CUMPLE: y is x. Medido: 4." in str(example("es"))


def test_csv_has_every_row_in_full():
    assert example().to_csv() == "x,y,kind\n1.0,1.0,a\n2.0,4.0,a\n1.0,1.0,b\n2.0,4.0,b\n"


def test_html_is_escaped():
    html = example()._repr_html_()
    assert "Squares &lt;b&gt;" in html and "<b>" not in html and "DOES NOT HOLD" in html


def test_columns_are_found_by_value():
    assert example().column("y", kind="b").tolist() == [1.0, 4.0]


def test_picture_draws_a_line_for_each_group():
    pytest.importorskip("matplotlib")
    figure = example().plot()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["kind: a", "kind: b"]
    assert figure.axes[0].get_xscale() == "log" and figure.axes[0].get_ylabel() == "y (cm)"
    apart = example()
    apart.picture = Picture("x", "y", panel="kind")
    assert [axes.get_title(loc="left") for axes in apart.plot().axes] == ["kind = a", "kind = b"]
    apart.picture = Picture("x", "y", unit="mm")  # of the rows, where the printed column shows cm
    assert apart.plot().axes[0].get_ylabel() == "y (mm)"
    with pytest.raises(ValueError, match="no picture"):
        LabTable("t", [], []).plot()


def test_accuracy_is_drawn_in_per_cent_and_ends_at_100():
    pytest.importorskip("matplotlib")
    rows = [{"step": 0, "accuracy": 0.5, "spread": 0.1}, {"step": 1, "accuracy": 0.9, "spread": 0.3}]
    columns = [Column("step", "step"), Column("accuracy", "accuracy"), Column("spread", "spread")]
    axes = LabTable("t", columns, rows, picture=Picture("step", "accuracy", spread="spread")).plot().axes[0]
    assert axes.get_ylim() == (0.0, 1.03) and axes.yaxis.get_major_formatter()(1.0, 0) == "100%"


def test_an_unknown_language_is_named():
    with pytest.raises(ValueError, match=r"en, es.*'fr'"):
        speaker("fr")


def test_means_and_comparisons():
    assert mean_and_spread([3.0]) == (3.0, 0.0)
    rng = np.random.default_rng(0)
    alike = [clearly_above(rng.standard_normal(8), rng.standard_normal(8)) for _ in range(400)]
    assert np.mean(alike) < 0.10  # t > 2 with 7 degrees of freedom: 4 %, standard error 1 %
    assert clearly_above([1.0], [0.9]) and not clearly_above([1.0], [0.995])
