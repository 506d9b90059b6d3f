"""`tinygrad-attn lab`: the list, one experiment, wrong names, both languages, files."""

import pytest

from tinygrad_attn.cli.main import main
from tinygrad_attn.lab.catalogue import EXPERIMENTS, experiment
from tinygrad_attn.lab.result import LabTable


def test_the_list_names_every_experiment_in_both_languages(capsys):
    assert main(["lab"]) == 0
    english = capsys.readouterr().out
    assert main(["lab", "--lang", "es"]) == 0
    spanish = capsys.readouterr().out
    for name, one in EXPERIMENTS.items():
        assert name in english and name in spanish
        assert one.en.split()[0] in english and one.es.split()[0] in spanish and one.es.startswith("¿")


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
    for one in EXPERIMENTS.values():
        function = one.load()
        assert "Claim:" in function.__doc__ and "efuted" in function.__doc__
        assert function.__annotations__["return"] in (LabTable, "LabTable")


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("name", ["variance", "temperature", "dictionary", "asymmetry", "definiteness"])
def test_quick_experiments_print_draw_and_report_progress(name, language):
    steps = []
    table = experiment(name, 1, language, lambda done, total: steps.append(done / total))
    assert steps[-1] == 1.0 and steps == sorted(steps)
    assert str(table) and table._repr_html_() and table.to_csv().count("\n") == len(table.rows) + 1
    pytest.importorskip("matplotlib")
    assert table.plot().axes


def test_same_seeds_same_numbers():
    assert experiment("variance", 1).to_csv() == experiment("variance", 1).to_csv()


def test_an_unknown_name():
    with pytest.raises(KeyError, match=r"no experiment 'x'; there are variance"):
        experiment("x")
