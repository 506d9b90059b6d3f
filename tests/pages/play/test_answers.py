"""What the live page computes, without a page: knobs, a trained model on any sentence, random vectors."""

import re

import numpy as np
import pytest

from tinygrad_attn.pages.kit import speaker
from tinygrad_attn.pages.play import view
from tinygrad_attn.pages.play.answers import WORDS, Knobs, bench, learn_now, learned
from tinygrad_attn.show.matrix import matrix_html
from tinygrad_attn.tasks.reader import attention
from tinygrad_attn.train.loop import Trainer
from tinygrad_attn.train.run import train_in
from tinygrad_attn.train.rundir import RunDirectory
from tinygrad_attn.train.settings import preset, task_of
from tinygrad_attn.train.workers import Threads

TAGS = {
    "p",
    "table",
    "tr",
    "th",
    "td",
    "div",
    "figure",
    "figcaption",
    "small",
    "colgroup",
    "col",
    "thead",
    "tbody",
    "span",
    "bdi",
}
EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def model():
    return learn_now()


def test_untouched_knobs_are_the_model_itself(model):
    found = model.read(model.example)
    logits, weights = attention(model.model, model.encode(model.example)[None])
    np.testing.assert_allclose(found.layers[0].value["weights"], weights[0], atol=1e-6)
    p = np.exp(logits.numpy()[0] - logits.numpy()[0].max())
    assert dict(found.answers)["-s"] == pytest.approx((p / p.sum())[1], rel=1e-5)
    assert found.target == "-s" and found.right is True


def test_the_knobs_do_what_they_say(model):
    base = model.read(model.example).layers[0].value
    for knobs, factor in ((Knobs(scaled=False), 1.0), (Knobs(temperature=8.0), 1 / 32)):
        found = model.read(model.example, knobs).layers[0].value
        np.testing.assert_allclose(found["scaled"], base["scores"] * factor, rtol=1e-4, atol=1e-5)
    hidden = model.read(model.example, Knobs(hidden=6))
    assert (hidden.layers[0].value["weights"][:, :, 6] == 0).all() and hidden.right is False  # only `he` says it
    all_words = model.read(model.example, Knobs(mask="none")).layers[0].value["weights"]
    assert (all_words[:, 0, 1:] > 0).all()
    np.testing.assert_array_equal(model.read(model.example).layers[0].value["weights"], base["weights"])  # as before


def test_other_sentences_are_read_or_refused(model):
    short = model.read("they sing")
    assert short.layers[0].value["weights"].shape == (4, 2, 2) and short.right is None
    assert short.target == short.answers[0][0]
    for text in ("", "   ", "I " * 9):
        with pytest.raises(ValueError, match="expected 1 to 8"):
            model.read(text)
    assert model.unknown(f"I sat 🎉 {EVIL} sat") == ["sat", "🎉", EVIL]
    with pytest.raises(ValueError, match="not in the vocabulary"):
        model.read("I sat")


def test_a_run_can_be_played_with(tmp_path):
    small = {"d_model": 8, "n_heads": 2, "n_layers": 2, "batch": 4, "warmup": 1, "steps": 2}
    directory = RunDirectory(tmp_path)
    with directory.locked():
        trainer = Trainer(*task_of(preset("copy", **small)), Threads(1))
        directory.begin(trainer.settings)
        train_in(directory, trainer)
    played = learned(tmp_path)
    tokens = played.encode(played.example)
    expected = trainer.model.eval()(tokens[None]).numpy()[0, -1]
    with_knobs = played.logits(tokens, Knobs().keep(len(tokens))).numpy()[0]
    # the knobs' mask is explicit, the model's own is causal: the same answer
    np.testing.assert_allclose(with_knobs, expected, rtol=1e-4, atol=1e-6)
    assert len(played.read(played.example).layers) == 2


def test_the_bench_is_attention_of_random_vectors():
    words = ["a", "b", "c", "d", "e", "f", "g", "h"]
    std = [bench(words, 256, seed, Knobs(scaled=False, mask="none")).score_std for seed in range(20)]
    assert np.mean(std) == pytest.approx(16, rel=0.15)
    live, dead = (bench(words, 1024, 0, Knobs(scaled=scaled, mask="none")) for scaled in (True, False))
    assert dead.dead > 0.4 > live.dead == 0 and dead.row_gradient < 1e-2 * live.row_gradient
    np.testing.assert_allclose(live.value["weights"].sum(axis=-1), 1, rtol=1e-12)
    again = bench(["other", *words[1:]], 1024, 0, Knobs(mask="none"))
    np.testing.assert_array_equal(
        again.value["scores"][1:, 1:], live.value["scores"][1:, 1:]
    )  # the same words: the same draws
    nothing = bench(["alone"], 4, 0, Knobs(mask="others"))
    assert nothing.value["weights"] == 0 and np.isnan(nothing.entropy)


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("text", ["", "word " * 500, "🎉 " * 9, "שלום עולם", EVIL, "\x00 \ud800 \u202e a", "a" * 5000])
def test_odd_sentences_break_and_inject_nothing(model, text, language):
    say = speaker(language)
    trouble = view.trouble_html(model, text, say)
    assert trouble and "<script" not in trouble
    words = model.parts(text)[:WORDS]
    if words:
        for gradients in (False, True):
            shown = view.bench_html(bench(words, 16), Knobs().keep(len(words)), gradients, say)
            assert "<script" not in shown and len(shown) < 400_000
            assert set(re.findall(r"<(\w+)", shown)) <= TAGS


def test_a_matrix_as_html_says_what_it_shows():
    text = matrix_html(np.array([[2e-5, -1e-5], [np.inf, 0.0]]), ["a<", "b"], ["x", "y"], caption="M")
    assert "a&lt;" in text and "×1e-05" in text and 'data-value="-1e-05"' in text and text.count("class=unseen") == 1
    assert "2.0" in text and "-1.0" in text and "--hue:var(--warm)" in text
