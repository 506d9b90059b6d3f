"""Every text of every experiment has its Spanish, and the Spanish says nothing that is not asked for."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

import tinygrad_attn.lab
from tinygrad_attn.lab.catalogue import EXPERIMENTS
from tinygrad_attn.lab.words import spanish

# the smallest run that shows every row
SMALL = {
    "variance": {"pairs": 9},
    "temperature": {"temperatures": (0.1, 1.0)},
    "dictionary": {"temperatures": (1.0, 0.1)},
    "jacobian": {"widths": (4,), "samples": 9},
    "vanishing": {"widths": (4,), "rows": 160, "draws": 2},
    "learning": {"widths": (4,), "steps": 1, "every": 1, "rates": (1.0,)},
    "scorers": {"widths": (4,), "steps": 1, "rates": (1.0,)},
    "asymmetry": {"widths": (4,)},
    "ties": {"widths": (4,), "steps": 1, "every": 1},
    "definiteness": {"widths": (4,)},
    "values": {"widths": (1, 2), "steps": 1},
    "concatenated": {"repeats": 1},
    "cost": {"lengths": (16, 32, 64)},
    "agreement": {"steps": 1, "word_steps": 1},
    "heads": {"steps": 1, "rates": (1.0,), "word_steps": 1},
    "parameter-free": {"steps": 1},
}


@pytest.fixture(scope="module")
def tables():
    return {name: EXPERIMENTS[name](seeds=1, language="es", **SMALL[name]) for name in EXPERIMENTS}


def to_translate(text):
    """Has it a word of at least three letters, values apart?  (`W_Q = W_K` and `d_k` are the same everywhere.)"""
    return re.search(r"[a-z]{3}", re.sub(r"\{.*?\}", "", text)) is not None


def declared():
    """Question, title and heads of the columns."""
    for one in EXPERIMENTS.values():
        yield from (one.question, one.title, *(column.title for column in one.columns))


def said_while_it_runs():
    """Constants that read like a text (they have a space), in every function that is handed a run."""
    for path in Path(tinygrad_attn.lab.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and [a.arg for a in function.args.args][:1] == ["run"]:
                inside = {id(piece) for f in ast.walk(function) if isinstance(f, ast.JoinedStr) for piece in f.values}
                texts = [
                    node.value
                    for node in ast.walk(function)
                    if isinstance(node, ast.Constant) and id(node) not in inside
                ]
                doc = ast.get_docstring(function, clean=False)
                yield from (text for text in texts if isinstance(text, str) and " " in text and text != doc)


def cells(tables):
    """Words in cells, with their columns."""
    for table in tables.values():
        for column in table.columns:
            for row in table.rows:
                if isinstance(row[column.key], str | bool):
                    yield f"{column.key}: {column.form(row[column.key])}"


def test_nothing_is_missing(tables):
    known = spanish()
    ends = {key.partition(": ")[2] for key in known}
    missing = {text for text in declared() if to_translate(text) and text not in known}
    missing |= {text for text in said_while_it_runs() if to_translate(text) and text not in known and text not in ends}
    missing |= {text for text in cells(tables) if to_translate(text.partition(": ")[2]) and text not in known}
    assert missing == set()


def test_nothing_is_left_over(tables):
    asked = {*declared(), *said_while_it_runs(), *cells(tables), "HOLDS", "DOES NOT HOLD", "Measured"}
    assert set(spanish()) - asked == set()


def test_both_languages_have_the_same_values():
    fields = string.Formatter().parse
    for english, other in spanish().items():
        assert [part[1:] for part in fields(english) if part[1] is not None] == [
            part[1:] for part in fields(other) if part[1] is not None
        ], english


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_printed_is_spanish(tables, name):
    """Nothing that has a Spanish word is left in English."""
    text = str(tables[name])
    assert "CUMPLE" in text and "HOLD" not in text and "Measured" not in text
    for sentence in (text for text in said_while_it_runs() if len(text) > 30 and "{" not in text):
        assert sentence not in text


def test_a_table_changes_its_language(tables):
    table = tables["ties"]
    table.language = "en"
    assert "independent " in str(table) and "Three matrices" in str(table)
    table.language = "es"
    assert "independientes" in str(table) and "Tres matrices" in str(table)
