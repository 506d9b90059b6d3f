"""A headless Chromium for the tests marked `browser`: Debian's, with its own chromedriver, through selenium.

Selenium because Debian ships the driver that fits its Chromium; nothing is downloaded."""

import shutil
import tempfile
from contextlib import contextmanager

import pytest

FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-dev-shm-usage",
)  # fmt: skip
DEEP = """
const found = [];
(function walk(root) {
  for (const e of root.querySelectorAll("*")) {
    if (e.matches(arguments_selector)) found.push(e);
    if (e.shadowRoot) walk(e.shadowRoot);
  }
})(document);
return found;
"""


@contextmanager
def chromium():
    """A browser; the test is skipped, with the reason, where one is missing."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = binary
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in [*FLAGS, f"user-data-dir={profile}"]:
            options.add_argument(f"--{flag}")
        browser = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
        try:
            browser.set_script_timeout(60)
            yield browser
        finally:
            browser.quit()


def look_like(browser, width=1200, height=900, dark=False):
    """The size of the window and the colours that the system prefers."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def deep(browser, selector):
    """All elements that match, those inside of components too."""
    return browser.execute_script(DEEP.replace("arguments_selector", repr(selector)))


def move(browser, slider, place):
    """A range input to a place, as a hand would: its input event fires."""
    script = (
        "const i = document.getElementById(arguments[0]); i.value = arguments[1]; i.dispatchEvent(new Event('input'))"
    )
    browser.execute_script(script, slider, place)


def overflow(browser):
    """By how many pixels the page is wider than the window."""
    return browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")


def numbers(browser, selector):
    """The values behind the cells of a table of class `matrix`, row by row; None where hidden."""
    script = """
const rows = [...document.querySelector(arguments[0]).tBodies[0].rows];
return rows.map(r => [...r.querySelectorAll("td")].map(c => c.dataset.value === undefined ? null : +c.dataset.value));
"""
    return browser.execute_script(script, selector)
