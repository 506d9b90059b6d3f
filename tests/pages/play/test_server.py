"""The server of the live page: this machine only, a busy port says so, a foreign name is refused."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygrad_attn.cli.main import main

pytest.importorskip("marimo", reason="needs the extra play")


def free_port():
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


def answer(port, host, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/", headers={"Host": host, **headers})
    response = connection.getresponse()
    return response.status, response.read().decode("utf-8", "replace")


@pytest.fixture(scope="module")
def port():
    number = free_port()
    command = [sys.executable, "-m", "tinygrad_attn", "play", "--no-browser", "--port", str(number)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, env={**os.environ, "COLUMNS": "200"}, **pipes)
    for _ in range(600):
        try:
            answer(number, f"127.0.0.1:{number}")
            break
        except OSError:
            assert server.poll() is None, server.stdout.read()
            time.sleep(0.1)
    yield number
    server.send_signal(signal.SIGINT)
    try:
        text, _ = server.communicate(timeout=30)
    finally:
        server.kill()
    assert f"http://127.0.0.1:{number}" in text and text.endswith("Ended.\n") and "Traceback" not in text, text


def test_it_answers_to_its_own_name_only(port):
    status, text = answer(port, f"127.0.0.1:{port}")
    assert status == 200 and "tinygrad_attn play" in text
    assert answer(port, f"localhost:{port}")[0] == 200
    assert answer(port, "evil.example")[0] == 400


def test_another_page_in_the_browser_may_not_read_or_drive_it(port):
    own = f"127.0.0.1:{port}"
    assert answer(port, own, Origin=f"http://{own}")[0] == 200
    for origin in ("https://evil.example", "http://127.0.0.1:1", "null"):
        assert answer(port, own, Origin=origin)[0] == 403
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        assert answer(port, own, Origin=origin, **upgrade, **key)[0] == 403


def test_it_listens_on_the_loopback_only(port):
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    if not tables[0].exists():
        pytest.skip("no /proc/net here")
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_busy_port_says_so(port, capsys):
    assert main(["play", "--no-browser", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"port {port} is busy" in said and "--port" in said


def test_wrong_uses(tmp_path, capsys):
    assert main(["play", "--port", "70000"]) == 2
    assert "from 1 to 65535" in capsys.readouterr().err
    assert main(["play", str(tmp_path), "--port", str(free_port())]) == 2
    assert "no run" in capsys.readouterr().err


# ---------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def page(browser, port):
    from chromium import look_like

    look_like(browser, 1200, 1600)
    browser.get(f"http://127.0.0.1:{port}/")
    eventually(lambda: matrix(browser, "bench-mix"))
    return browser


def eventually(question, seconds=60):
    """The first true answer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := question():
            return found
        time.sleep(0.1)
    raise AssertionError("the page did not answer in time")


def matrix(browser, name):
    """The numbers of a matrix of the page, None where hidden; None where there is no such matrix."""
    script = """
const table = document.querySelector('table.matrix[data-name="' + arguments[0] + '"]');
return table && [...table.tBodies[0].rows].map(r => [...r.querySelectorAll("td")].map(
  c => c.dataset.value === undefined ? null : +c.dataset.value));
"""
    return browser.execute_script(script, name)


def type_in(browser, text):
    """Into the sentence's field, as by hand: React hears of it through its own setter."""
    from chromium import deep

    (field,) = [e for e in deep(browser, "input") if e.get_attribute("maxlength") == "2000"]
    script = """
const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
set.call(arguments[0], arguments[1]);
arguments[0].dispatchEvent(new Event("input", {bubbles: true}));
"""
    browser.execute_script(script, field, text)


def slide(browser, place, keys):
    """Slider number `place` by its keys."""
    from chromium import deep
    from selenium.webdriver.common.keys import Keys

    thumb = deep(browser, "[role=slider]")[place]
    for key in keys:
        thumb.send_keys(getattr(Keys, key))


def agree(browser, name, values):
    import numpy as np

    def question():
        shown = matrix(browser, name)
        if shown is None or (len(shown), len(shown[0])) != values.shape:
            return False
        shown = np.array([[np.nan if x is None else x for x in row] for row in shown], dtype=float)
        return np.isclose(shown, values, rtol=1e-5, atol=1e-7)[np.isfinite(shown)].all() and np.isfinite(shown).any()

    return eventually(question, 30)


@pytest.mark.browser
def test_it_computes_what_the_library_computes(page):
    from tinygrad_attn.pages.play.answers import Knobs, bench, learn_now

    model = learn_now()
    for text in (model.example, "she run , it run , we ___", "they sing"):
        type_in(page, text)
        for head, weights in enumerate(model.read(text).layers[0].value["weights"]):
            agree(page, f"model-0-{head}", weights)
        agree(page, "bench-scores", bench(text.split(), 64).value["scores"])
    started = time.monotonic()
    slide(page, 1, ["ARROW_RIGHT"] * 4)
    agree(page, "bench-weights", bench(["they", "sing"], 1024).value["weights"])
    assert time.monotonic() - started < 10
    slide(page, 0, ["ARROW_LEFT"] * 2)  # temperature 0.5
    agree(page, "bench-weights", bench(["they", "sing"], 1024, 0, Knobs(temperature=0.5)).value["weights"])
    agree(page, "model-0-3", model.read("they sing", Knobs(temperature=0.5)).layers[0].value["weights"][3])
    slide(page, 0, ["ARROW_RIGHT"] * 2)
    from chromium import deep

    (unscaled,) = [e for e in deep(page, "label") if "unscaled" in e.text and e.text != "scale"][:1]
    unscaled.click()
    knobs = Knobs(scaled=False)
    agree(page, "bench-weights", bench(["they", "sing"], 1024, 0, knobs).value["weights"])
    agree(page, "model-0-0", model.read("they sing", knobs).layers[0].value["weights"][0])
    (switch,) = deep(page, "[role=switch]")
    switch.click()
    agree(page, "bench-scores", bench(["they", "sing"], 1024, 0, knobs).gradient["scores"])
    switch.click()


@pytest.mark.browser
def test_odd_sentences_break_and_inject_nothing(page):
    odd = ["", "word " * 399, "🎉 " * 9, "שלום עולם", "</script><img src=x onerror=\"document.title='broken'\">"]
    for text in odd:
        type_in(page, text)
        warned = eventually(lambda: page.find_elements("css selector", ".ta .warn"))
        assert warned[0].is_displayed()
        if text:
            first = text.split()[0]
            eventually(lambda: page.execute_script(
                "const t = document.querySelector('table.matrix[data-name=bench-scores] tbody th'); return t && t.textContent"
            ) == (first if len(first) <= 16 else first[:15] + "…"))  # fmt: skip
    assert page.title == "tinygrad_attn play"
    assert not page.find_elements("css selector", ".ta img")
    type_in(page, "I work , you work , he ___")
    eventually(lambda: matrix(page, "model-0-0"))


@pytest.mark.browser
def test_it_fits_a_phone_and_loads_nothing_from_elsewhere(page):
    from chromium import look_like, overflow

    look_like(page, 390, 900, dark=True)
    eventually(lambda: overflow(page) <= 0)
    names = page.execute_script("return performance.getEntriesByType('resource').map(e => new URL(e.name).host)")
    assert {name.partition(":")[0] for name in names} <= {"127.0.0.1", ""}
    look_like(page, 1200, 1600)
