"""The probe's own pages in a browser: the stepper's steps and switches, the table of what was watched; phone width too."""

import pytest
from chromium import look_like, overflow

import tinygrad_attn as ta
from tinygrad_attn import probe
from tinygrad_attn.probe import stepper_page as page

pytestmark = pytest.mark.browser
EVIL = "</script><script>document.title='broken'</script>"


def steps():
    x = ta.Tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    y = (x * x).named(EVIL)
    return probe.stepper((ta.softmax(y) * y).sum(), {"x": x})


@pytest.mark.parametrize("width", [390, 1200])
def test_the_stepper(browser, tmp_path, width):
    from selenium.webdriver.common.keys import Keys

    stepper = steps()
    stepper.to_html(tmp_path / "page.html")
    look_like(browser, width)
    browser.get((tmp_path / "page.html").as_uri())
    body = browser.find_element("tag name", "body")

    def where():
        return browser.find_element("id", "where").text

    def label():
        return browser.find_element("css selector", "#step h2").text

    for place in range(len(stepper)):
        assert where() == f"step {place + 1} of {len(stepper)}" and label() == stepper.at(place).label
        body.send_keys(Keys.ARROW_RIGHT)
    body.send_keys(Keys.HOME)
    assert where().startswith("step 1 of")
    browser.find_element("id", "next").click()
    shown = len(browser.find_elements("css selector", "#step td"))
    browser.find_element("id", "numbers").click()
    assert shown > 0 and not browser.find_elements("css selector", "#step td")
    browser.find_element("id", "jacobians").click()
    assert "local Jacobian" not in browser.find_element("id", "step").text
    browser.find_element("css selector", "#list li:last-child button").click()
    assert where() == f"step {len(stepper)} of {len(stepper)}"
    assert browser.title != "broken" and overflow(browser) <= 0


def test_the_stepper_in_spanish(browser, tmp_path):
    (tmp_path / "page.html").write_text(page.stepper_page(steps(), "es"), encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.find_element("id", "where").text.startswith("paso 1 de")
    text = browser.find_element("tag name", "body").text
    assert "Llega: dL/d(out)" in text and "siguiente" in text
    for english in ("step ", "Rule", "Saved", "received", "Arrives", "sent"):
        assert english not in text


@pytest.mark.parametrize("dark", [False, True])
def test_what_was_watched(browser, tmp_path, dark):
    q = ta.randn(4, 8, requires_grad=True)
    with probe.watch() as seen:
        out, _ = ta.scaled_dot_product_attention(q, ta.randn(4, 8), ta.randn(4, 8))
        (out * out).sum().named(EVIL).backward()
    seen.to_html(tmp_path / "seen.html")
    look_like(browser, 390, dark=dark)
    browser.get((tmp_path / "seen.html").as_uri())
    text = browser.find_element("tag name", "body").text
    for name in ("scores", "scaled", "weights", EVIL):
        assert name in text
    assert browser.title != "broken" and overflow(browser) <= 0
