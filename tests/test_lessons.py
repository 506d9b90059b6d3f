"""The lessons: both languages from one source, every notebook runs, every exercise knows right from wrong."""

import ast
import importlib.util
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tinygrad_attn.autodiff.blas import one_thread_blas
from tinygrad_attn.lab.exercise import Exercise

LESSONS = Path(__file__).parents[1] / "examples" / "lessons"
LANGUAGES = ("en", "es")
NAMES = [path.stem for path in sorted(LESSONS.glob("[0-9]_*.py"))]


def builder():
    spec = importlib.util.spec_from_file_location("lessons_build", LESSONS / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def notebook(name, language):
    return json.loads((LESSONS / language / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def text(cell):
    return "".join(cell["source"])


def run(name, language):
    """All code cells of a notebook in one fresh namespace, which is returned."""
    names = {"__name__": "lesson"}
    with one_thread_blas():
        for cell in notebook(name, language):
            if cell["cell_type"] == "code":
                exec(compile(text(cell), f"{name}.{language}", "exec"), names)
    return names


def exercises(names):
    return {key: value for key, value in names.items() if isinstance(value, Exercise)}


def test_there_are_nine():
    assert [int(name[0]) for name in NAMES] == list(range(1, 10))


@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_and_its_exercises_judge(name, capsys):
    """In English; the Spanish notebook is the same program, says the next test."""
    started = time.perf_counter()
    names = run(name, "en")
    assert names["LANGUAGE"] == "en"
    assert time.perf_counter() - started < 60
    found = exercises(names)
    shown = capsys.readouterr().out
    assert len(found) >= 2 and shown.count("? ") >= len(found)  # asked, and waiting for an answer
    for exercise in found.values():
        judge(exercise, capsys)


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_are_one_program(name):
    """The code cells differ in comments and in the line that sets the language."""
    programs = []
    for language in LANGUAGES:
        code = "\n".join(text(cell) for cell in notebook(name, language) if cell["cell_type"] == "code")
        assert code.count(f'LANGUAGE = "{language}"') == 1
        programs.append(ast.dump(ast.parse(code.replace(f'LANGUAGE = "{language}"', "LANGUAGE = ..."))))
    assert programs[0] == programs[1]


def judge(exercise, capsys):
    right = exercise.right
    assert exercise(right) is True and "✓" in capsys.readouterr().out
    if not isinstance(right, str):
        assert exercise(np.asarray(right, float) * (1 + 1e-6)) is True  # as a person rounds
        capsys.readouterr()
    for wrong, hint in exercise.mistakes:
        assert exercise(wrong) is False, wrong
        assert capsys.readouterr().out == f"✗ {hint}\n"
    for nonsense in ("nonsense", -12345.678, [1.0, 2.0, 3.0, 4.0, 5.0], float("nan"), {}, object()):
        assert exercise(nonsense) is False
        assert capsys.readouterr().out == f"✗ {exercise.hint}\n"
    assert exercise() is None and capsys.readouterr().out == f"? {exercise.question}\n"


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_cells_and_no_word_of_the_other(name):
    english, spanish = (notebook(name, language) for language in LANGUAGES)
    assert [cell["cell_type"] for cell in english] == [cell["cell_type"] for cell in spanish]
    for one, other in zip(english, spanish):
        if one["cell_type"] == "markdown":
            assert text(one) != text(other)
            assert re.findall(r"^#+ ", text(one), re.M) == re.findall(r"^#+ ", text(other), re.M)
            assert not re.search(r"\b(the|and|with|which)\b", text(other).replace("the cat", "")), text(other)
            assert not re.search(r"\b(los|las|una|que|con)\b", text(one)), text(one)


def test_notebooks_are_those_of_the_sources():
    cells = builder().cells
    for name in NAMES:
        source = (LESSONS / f"{name}.py").read_text(encoding="utf-8")
        for language in LANGUAGES:
            made = [(cell["cell_type"], text(cell)) for cell in notebook(name, language)]
            assert made == cells(source, language), f"{name}.{language}: run python examples/lessons/build.py"


def test_notebooks_are_valid_and_built_alike():
    pytest.importorskip("nbformat")
    assert builder().main(check=True) == 0


def test_every_slip_is_stated_in_both_languages():
    """LESSONS part C, by the words that state each slip."""
    stated = {
        "3_attention": [(r"\(0\.269, 0\.731\)", r"Only a \*hard\* lookup", r"Solo una búsqueda \*exacta\*")],
        "4_three_projections": [
            (r"W Wᵀ", r"not `Wᵀ W`", r"no `Wᵀ W`"),
            (r"\*\*semi", r"no eigenvalue is negative", r"ningún autovalor es"),
            (r"W_Q = W_K", r"\*scores\* become symmetric", r"simétricas las\n\*puntuaciones\*"),
        ],
        "5_square_root": [
            (r"dL/dW_Q", r"norm \*grows\*", r"norma\n\*crece\*"),
            (r"sigma 0\.02", r"unit-variance q and k", r"q y k de varianza 1"),
        ],
    }
    assert sum(map(len, stated.values())) == 6
    for name, slips in stated.items():
        whole = {language: "\n".join(map(text, notebook(name, language))) for language in LANGUAGES}
        for both, english, spanish in slips:
            assert re.search(both, whole["en"]) and re.search(both, whole["es"])
            assert re.search(english, whole["en"]), english
            assert re.search(spanish, whole["es"]), spanish


def test_a_source_runs_as_a_plain_script(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["6_masks.py", "es"])
    source = (LESSONS / "6_masks.py").read_text(encoding="utf-8")
    names = {"__name__": "__main__"}
    exec(compile(source, "6_masks.py", "exec"), names)
    assert names["LANGUAGE"] == "es" and "¿Suma de la fila?" in capsys.readouterr().out
