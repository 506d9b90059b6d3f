"""The report: what it computes is what the library computes, and the file needs nothing but itself."""

import html
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.cli.main import main
from tinygrad_attn.pages.look import CHAIN, look
from tinygrad_attn.pages.report.subject import subject_of_run, subject_of_task
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory, RunError
from tinygrad_attn.train.settings import preset, task_of
from tinygrad_attn.train.workers import Threads

pytest.importorskip("matplotlib", reason="needs the extra viz")
from tinygrad_attn.pages.report.document import lab_report, report, worked_example
from tinygrad_attn.pages.report.temperature import TEMPERATURES, temperature_data
from tinygrad_attn.pages.report.twin import twins

SMALL = {
    "d_model": 8,
    "n_heads": 2,
    "n_layers": 2,
    "batch": 4,
    "warmup": 1,
    "steps": 6,
    "save_every": 2,
    "eval_every": 6,
}


@pytest.fixture(scope="module")
def subject():
    return subject_of_task(steps=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = RunDirectory(tmp_path_factory.mktemp("run"))
    with directory.locked():
        trainer = Trainer(*task_of(preset("copy", **SMALL)), Threads(1))
        directory.begin(trainer.settings)
        train_in(directory, trainer)
    return directory.path


def test_look_gives_every_head_its_own_gradient():
    model, x = ta.nn.Block(8, 2, seed=0, causal=True, sigma=0.5), ta.randn(1, 3, 8)

    def loss():
        return (model(x) ** 2).sum()

    (layer,) = look(model, loss)
    assert all(p.grad is None for p in model.parameters())  # as before
    loss().backward()
    whole = model.attn.W_Q.grad.numpy()
    np.testing.assert_array_equal(np.concatenate(layer.query, axis=1), whole)
    assert set(layer.norms()) == set(CHAIN)
    np.testing.assert_allclose(np.sqrt((layer.norms()["W_Q"] ** 2).sum()), np.linalg.norm(whole), rtol=1e-6)
    np.testing.assert_allclose(layer.gradient["scores"], layer.gradient["scaled"] / 2, rtol=1e-6)  # d_k = 4


def test_threads_may_look_at_one_model_at_the_same_time():
    model, x = ta.nn.Block(8, 2, seed=0, causal=True, sigma=0.5), ta.randn(1, 3, 8)

    def query(place):
        (layer,) = look(model, lambda: (model(x, scale=1.0 + place) ** 2).sum())
        return layer.query

    alone = [query(place) for place in range(4)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(query, [0, 1, 2, 3] * 8))
    for place, found in enumerate(together):
        np.testing.assert_array_equal(found, alone[place % 4])


def test_a_training_is_seen_at_several_moments(subject):
    assert [s.step for s in subject.snapshots] == [0, 2, 4, 8, 12, 20]
    assert subject.target == "-s" and subject.words == subject.sentence.split()
    for snapshot in subject.snapshots:
        np.testing.assert_allclose(snapshot.layers[0].value["weights"].sum(axis=-1), 1, rtol=1e-5)


def test_a_run_is_seen_at_its_checkpoints(folder):
    found = subject_of_run(folder)
    assert [s.step for s in found.snapshots] == [0, 2, 4, 6] and len(found.last.layers) == 2
    assert not np.array_equal(found.snapshots[0].layers[0].query, found.last.layers[0].query)
    own = subject_of_run(folder, "a b c d e f g h = a")
    assert own.sentence == "a b c d e f g h =" and own.target == "a"
    with pytest.raises(ValueError, match="not in the vocabulary: 'z'"):
        subject_of_run(folder, "a z")
    with pytest.raises(ValueError, match="at least two"):
        subject_of_run(folder, "a")
    with pytest.raises(ValueError, match="do not fit"):
        subject_of_run(folder, "a " * 40)
    with pytest.raises(RunError, match="no run"):
        subject_of_run(folder / "nothing")


def test_the_temperatures_are_softmax(subject):
    heat = temperature_data(subject)
    for T, one in zip(TEMPERATURES, heat["at"]):
        e = np.exp((heat["scores"] - heat["scores"].max()) / T)
        p = e / e.sum()
        np.testing.assert_allclose(one["weights"], p, rtol=1e-9)
        np.testing.assert_allclose(one["norm"], np.linalg.norm(np.diag(p) - np.outer(p, p)), rtol=1e-4, atol=1e-12)


def test_the_twins_differ_where_they_should():
    narrow, wide = twins(16, sequences=8), twins(256, sequences=8)
    assert wide.dead(1) > narrow.dead(1) and wide.dead(0) == 0
    assert wide.meters[1]["score std"] == pytest.approx(16, rel=0.15)
    assert wide.meters[0]["score std"] == pytest.approx(1, rel=0.15)
    assert np.median(wide.norms[1]["scaled"]) < 0.1 * np.median(wide.norms[0]["scaled"])


def test_the_worked_example_is_that_of_the_lesson():
    loss, W = worked_example()
    assert loss.item() == pytest.approx(0.66048, abs=5e-6)
    loss.backward()
    assert all(w.grad is not None for w in W.values())


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_file_needs_nothing_else(subject, language):
    text = report(subject, language, widths=(16, 1024))
    assert len(text) < 2_000_000 and f'<html lang="{language}">' in text
    assert not re.findall(r"""(?:src|href)=["']?(?!#)[^"'> ]+""", text.replace("srcdoc=", ""))
    assert "http" not in text and "@import" not in text and "url(#" in text
    ids = re.findall(r' id="?([\w-]+)"?[ >]', text.partition("<iframe")[0])
    assert len(ids) == len(set(ids))


def test_every_word_is_escaped(subject):
    evil = "</script><img src=x onerror=alert(1)>"
    hostile = replace(subject, sentence=evil, name=evil, target=evil, words=[evil, *subject.words[1:]])
    text = report(hostile, widths=(16,))
    assert "<img" not in text and html.escape(evil) in text


def test_the_command_writes_and_refuses(folder, tmp_path, capsys):
    out = tmp_path / "new" / "page.html"
    assert main(["report", str(folder), "--lang", "es", "-o", str(out)]) == 0
    assert "Quién mira a quién" in out.read_text(encoding="utf-8") and "MB" in capsys.readouterr().out
    for arguments, message in (
        ([str(folder), "--lab"], "not both"),
        (["--sentence", "a b"], "needs a RUN"),
        ([str(tmp_path / "nothing")], "no run"),
        ([str(folder), "--sentence", "a z"], "not in the vocabulary"),
        ([str(folder), "-o", str(folder)], "cannot write"),
    ):
        arguments = arguments if "-o" in arguments else [*arguments, "-o", str(tmp_path / "x.html")]
        assert main(["report", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()  # what is refused leaves no empty page ...
    kept = out.read_bytes()
    assert (
        main(["report", str(tmp_path / "nothing"), "-o", str(out)]) == 2 and out.read_bytes() == kept
    )  # ... and spoils none


def test_the_lab_has_a_page_of_its_own():
    from tinygrad_attn.lab.catalogue import EXPERIMENTS

    tables = [("How large?", EXPERIMENTS["variance"](seeds=1)), ("d[key]?", EXPERIMENTS["dictionary"](seeds=1))]
    text = lab_report(tables, "en")
    assert text.count("<section") == 2 and "HOLDS" in text and "http" not in text
