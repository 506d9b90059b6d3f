"""`tinygrad-attn lab`: the list, one experiment, wrong names, both languages, files."""

import inspect
import subprocess
import sys

import pytest

from tinygrad_attn.cli.main import main
from tinygrad_attn.lab.catalogue import EXPERIMENTS
from tinygrad_attn.lab.result import LabTable
from tinygrad_attn.lab.words import spoken


def test_the_list_names_every_experiment_in_both_languages(capsys):
    assert main(["lab"]) == 0
    english = capsys.readouterr().out
    assert main(["lab", "--lang", "es"]) == 0
    spanish = capsys.readouterr().out
    for name, one in EXPERIMENTS.items():
        assert name in english and name in spanish
        question = spoken(one.question, "es")
        assert one.question in english and question in spanish and question.startswith("¿")


def test_one_experiment_with_files(capsys, tmp_path):
    assert main(["lab", "dictionary", "--seeds", "2", "--lang", "es", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "diccionario blando" in shown and "SE CUMPLE" in shown
    assert (tmp_path / "dictionary.csv").read_text().startswith("temperature,")


@pytest.mark.parametrize(
    "arguments, text", [(["foo"], "no experiment 'foo'"), (["variance", "--seeds", "0"], "from 1 upward")]
)
def test_wrong_use(arguments, text, capsys):
    try:
        code = main(["lab", *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2 and text in capsys.readouterr().err


def test_experiments_load_and_say_what_would_refute_them():
    for name, one in EXPERIMENTS.items():
        assert "Claim:" in one.__doc__ and "efuted" in one.__doc__
        assert one.__module__ == f"tinygrad_attn.lab.{name.replace('-', '_')}"
        settings = inspect.signature(one)
        assert settings.return_annotation is LabTable
        assert list(settings.parameters)[:3] == ["seeds", "language", "on_step"]


def test_the_list_and_one_experiment_import_no_other():
    code = (
        "import sys\nfrom tinygrad_attn.lab.catalogue import EXPERIMENTS\n"
        "before = set(sys.modules)\nassert len(list(EXPERIMENTS)) == 16\nassert set(sys.modules) == before\n"
        "EXPERIMENTS['variance']\nprint([name for name in set(sys.modules) - before if 'tinygrad_attn.lab' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['tinygrad_attn.lab.variance']\n"


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("name", ["variance", "temperature", "dictionary", "asymmetry", "definiteness"])
def test_quick_experiments_print_draw_and_report_progress(name, language):
    steps = []
    table = EXPERIMENTS[name](1, language, lambda done, total: steps.append(done / total))
    assert steps[-1] == 1.0 and steps == sorted(steps)
    assert str(table) and table._repr_html_() and table.to_csv().count("\n") == len(table.rows) + 1
    pytest.importorskip("matplotlib")
    assert table.plot().axes


def test_same_seeds_same_numbers():
    assert EXPERIMENTS["variance"](1).to_csv() == EXPERIMENTS["variance"](1).to_csv()


def test_an_unknown_name():
    with pytest.raises(KeyError, match=r"no experiment 'x'; there are variance"):
        EXPERIMENTS["x"]
