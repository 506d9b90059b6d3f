"""The report in a browser: sliders moved, numbers compared with those of the library, phone and desktop, light and dark."""

from dataclasses import replace

import numpy as np
import pytest
from chromium import look_like, move, numbers, overflow

from tinygrad_attn.pages.report.subject import subject_of_task
from tinygrad_attn.show.table import number

pytest.importorskip("matplotlib", reason="needs the extra viz")
from tinygrad_attn.pages.report.document import report
from tinygrad_attn.pages.report.temperature import TEMPERATURES, temperature_data
from tinygrad_attn.pages.report.twin import twins

pytestmark = pytest.mark.browser
HEAD = "#heads figure:nth-child({}) table"


@pytest.fixture(scope="module")
def subject():
    return subject_of_task(steps=20)


@pytest.fixture(scope="module")
def page(browser, subject, tmp_path_factory):
    """The page, opened from disk."""
    path = tmp_path_factory.mktemp("report") / "page.html"
    path.write_text(report(subject, widths=(16, 256)), encoding="utf-8")
    look_like(browser)
    browser.get(path.as_uri())
    return browser


def same(shown, ours, digits):
    ours = np.asarray(ours, dtype=float)
    shown = np.array([[np.nan if x is None else x for x in row] for row in shown], dtype=float)
    finite = np.isfinite(shown)
    np.testing.assert_allclose(shown[finite], ours[finite], rtol=0.6 * 10.0 ** (1 - digits), atol=1e-300)
    return finite


def test_the_matrix_follows_the_training(page, subject):
    causal = np.tri(8, dtype=bool)
    for place, snapshot in ((0, subject.snapshots[0]), (5, subject.last)):
        move(page, "snapshot", place)
        for head in range(4):
            finite = same(numbers(page, HEAD.format(head + 1)), snapshot.layers[0].value["weights"][head], 3)
            np.testing.assert_array_equal(finite, causal)
        assert str(snapshot.step) == page.execute_script("return document.querySelector('#flow output').textContent")
        shown = page.execute_script(
            "return [...document.querySelectorAll('[data-frames=snapshot] .frame')].map(f => f.hidden)"
        )
        assert shown == [i != place for i in range(6)]
    names = page.execute_script(
        "return [...document.querySelectorAll('#heads tbody th')].slice(0, 8).map(t => t.textContent)"
    )
    assert names == subject.words


def test_the_steps_show_values_and_gradients(page, subject):
    layer = subject.snapshots[0].layers[0]
    script = """
for (const [id, value] of arguments[0]) { const s = document.getElementById(id); s.value = value;
  s.dispatchEvent(new Event("change")); }"""
    page.execute_script(script, [["steps-head", 2], ["steps-snapshot", 1], ["steps-what", 1]])
    same(numbers(page, "#steps figure:nth-child(1) table"), layer.gradient["scores"][2], 4)
    same(numbers(page, "#steps figure:nth-child(5) table"), layer.gradient["mix"][2], 4)
    page.execute_script(script, [["steps-what", 0]])
    same(numbers(page, "#steps figure:nth-child(2) table"), layer.value["scaled"][2], 4)
    assert "8 × 16" in page.execute_script("return document.querySelector('#steps figure:nth-child(5)').textContent")


def test_the_width_slider_shows_the_twins(page):
    for place, width in enumerate((16, 256)):
        move(page, "d_k", place)
        text = page.execute_script(
            "return document.querySelector('[data-frames=d_k] .frame:not([hidden]) table').innerText"
        )
        found = twins(width)
        assert f"d_k = {width}" in text
        for which in (0, 1):
            assert number(found.meters[which]["score std"]) in text
            assert number(float(np.median(found.norms[which]["scaled"]))) in text


def test_the_temperature_slider_shows_softmax(page, subject):
    heat = temperature_data(subject)
    for place in (4, 12, 20):
        move(page, "temperature", place)
        one = heat["at"][place]
        same(numbers(page, "#temperature-weights table"), [one["weights"]], 4)
        same(numbers(page, "#temperature-jacobian table"), one["jacobian"], 4)
        text = page.execute_script("return document.getElementById('temperature-numbers').textContent")
        assert f"T = {TEMPERATURES[place]:g};" in text and f"{one['entropy']:.4g}" in text
    # the marker stands where the axis says: three places, evenly apart on a logarithmic axis
    script = "return document.getElementById('temperature-marker').getBoundingClientRect().x"
    xs = []
    for place in (4, 12, 20):
        move(page, "temperature", place)
        xs.append(page.execute_script(script))
    assert xs[2] - xs[1] == pytest.approx(xs[1] - xs[0], abs=0.5) and xs[1] - xs[0] > 50


def test_keys_move_the_sliders(page):
    from selenium.webdriver.common.keys import Keys

    slider = page.find_element("id", "snapshot")
    move(page, "snapshot", 5)
    slider.send_keys(Keys.ARROW_LEFT)
    assert page.execute_script("return document.querySelector('#matrix output').textContent") == "12"
    assert slider.get_attribute("aria-valuetext") == "12"
    unnamed = """return [...document.querySelectorAll("input, select")].filter(e => !e.labels.length).length"""
    assert page.execute_script(unnamed) == 0


def test_the_stepper_steps(page):
    page.switch_to.frame(page.find_element("css selector", "iframe"))
    try:
        assert page.find_element("id", "where").text.startswith("step 1 of")
        page.find_element("id", "next").click()
        assert page.find_element("css selector", "#step h2").text == "mix"
    finally:
        page.switch_to.default_content()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_and_has_the_colours_of_the_system(page, width, dark):
    look_like(page, width, dark=dark)
    assert overflow(page) <= 0
    light = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    ink = page.execute_script("return getComputedStyle(document.querySelector('figure svg text')).fill")
    bright = [sum(map(int, colour[4:-1].split(","))) > 384 for colour in (light, ink)]
    assert bright == [not dark, dark]
    size = page.execute_script(
        "return document.querySelector('#flow .frame:not([hidden]) svg').getBoundingClientRect().width"
    )
    assert 300 < size < 560


def test_it_prints(page):
    look_like(page)
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 50_000


def test_words_inject_nothing(browser, subject, tmp_path):
    evil = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    words = [evil, "🎉", "שלום", *subject.words[3:]]
    path = tmp_path / "page.html"
    path.write_text(report(replace(subject, words=words, sentence=evil, target=evil), widths=(16,)), encoding="utf-8")
    browser.get(path.as_uri())
    assert "gradient" in browser.title and not browser.find_elements("tag name", "img")
    assert browser.execute_script("return document.querySelector('#heads tbody th').textContent") == evil[:15] + "…"
    look_like(browser, 390)
    assert overflow(browser) <= 0
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
