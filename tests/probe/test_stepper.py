"""The stepper: its contributions are those of backward, its Jacobians are the true ones, its page works in a browser."""

import re
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe
from tinygrad_attn.probe.rules import sources
from tinygrad_attn.probe.stepper_page import stepper_page, words
from tinygrad_attn.probe.stepper_terminal import run


def small():
    x = ta.Tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    W = ta.Tensor([[0.5, -1.0], [0.25, 1.0]], requires_grad=True)
    return {"x": x, "W": W}, lambda: (ta.softmax(x @ W + x) * x).sum()


def test_accumulated_contributions_are_the_gradients():
    model, x = ta.nn.Block(8, 2, seed=0, causal=True, sigma=0.5), ta.randn(2, 3, 8)
    out = model(x)
    loss = (out * out).sum()
    s = probe.stepper(loss, model)
    last = {}
    for place in range(len(s)):
        for share in s.at(place).shares:
            if share.received == share.expected:
                last[share.parent] = share.accumulated
    loss.backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(last[name], parameter.grad.numpy())


def test_forth_and_back_give_the_same():
    params, f = small()
    s = probe.stepper(f(), params)
    seen = []
    for _ in range(len(s)):
        seen.append(str(s))
        s.next()
    s.next()  # stays at the end
    again = []
    for _ in range(len(s)):
        again.append(str(s))
        s.back()
    assert seen == again[::-1] and s.back().place == 0
    assert s.go(-1).place == len(s) - 1
    with pytest.raises(IndexError, match="no step 99"):
        s.go(99)


def test_find_goes_round():
    params, f = small()
    s = probe.stepper(f(), params)
    assert s.find("softmax").view.operation.startswith("softmax")
    place = s.place
    assert s.find("softmax").place == place and s.find("W").view.label == "W"
    with pytest.raises(KeyError, match="no step has 'conv'"):
        s.find("conv")


def test_local_jacobians_in_closed_form():
    x = ta.Tensor([0.3, -1.0, 2.0], requires_grad=True, dtype="float64")
    s = probe.stepper(ta.softmax(x), gradient=[1.0, 0.0, 0.0])
    p = ta.softmax(x).numpy()
    np.testing.assert_allclose(s.view.shares[0].jacobian.matrix, np.diag(p) - np.outer(p, p), rtol=1e-12)
    np.testing.assert_allclose(s.view.shares[0].contribution, p[0] * (np.eye(3)[0] - p), rtol=1e-12)


def test_large_jacobians_are_summed_up():
    x = ta.Tensor(np.random.default_rng(0).standard_normal((20, 30)), requires_grad=True)
    y = np.random.default_rng(1).standard_normal((20, 30))
    diagonal = probe.stepper((x * y).sum()).next().view.shares[0].jacobian
    assert diagonal.matrix is None and diagonal.norm == pytest.approx(np.linalg.norm(y))
    assert diagonal.diagonal[2] == np.abs(y).max() and "diagonal" in str(diagonal)
    W = ta.Tensor(np.random.default_rng(2).standard_normal((30, 30)))
    product = probe.stepper((x @ W).sum()).next().view.shares[0].jacobian
    exact = np.sqrt(20) * np.linalg.norm(W.numpy())  # kron(I, W^T)
    assert product.norm == pytest.approx(exact, rel=0.2) and "about" in str(product)


def test_rules_are_read_from_their_source():
    from tinygrad_attn.autodiff.ops import elementwise, softmax

    assert elementwise.div.op.formulas() == [("dL/dx", "g / y"), ("dL/dy", "-g * out / y")]
    assert softmax.softmax.op.formulas() == [("dL/dx", "_softmax_rule(g, out, axis)")]
    assert sources(softmax.softmax.op)[0].startswith("def _softmax_rule") and not sources(elementwise.div.op)

    @ta.op(vjps={"x": lambda g, x: g * 3 * x**2})
    def cube(x):
        return x**3

    assert cube.op.formulas() == [("dL/dx", "g * 3 * x**2")]


def test_a_fused_operation_shows_its_reference():
    from tinygrad_attn.attention.fused import fused_attention_op
    from tinygrad_attn.autodiff.ops.norm import layer_norm

    assert any("centred / sqrt" in text for text in sources(layer_norm.op))
    assert any("scores = wide_q @ wide_k.mT" in text for text in sources(fused_attention_op.op))


def test_the_text_shows_everything():
    params, f = small()
    text = str(probe.stepper(f(), params).find("mul"))
    for part in ("g * y", "test_stepper.py", "arrives", "softmax", "1 of 3 contributions", "local Jacobian", "saved"):
        assert part in text


def test_nothing_changes_and_backward_runs_afterwards():
    params, f = small()
    loss = f()
    s = probe.stepper(loss, params)
    assert len(s) == 7 and params["x"].grad is None
    loss.backward()
    with pytest.raises(RuntimeError, match="too late"):
        probe.stepper(loss)
    with pytest.raises(RuntimeError, match="needs its gradient"):
        probe.stepper(params["x"] * 2.0)
    with pytest.raises(RuntimeError, match="no graph"):
        probe.stepper(ta.ones(1))


def test_check_against_differences():
    params, f = small()
    s = probe.stepper(f(), params)
    before = {name: p.numpy().tobytes() for name, p in params.items()}
    assert all(row["error"] < 1e-5 for row in s.check(f).rows)
    assert before == {name: p.numpy().tobytes() for name, p in params.items()}
    assert max(row["error"] for row in s.check(lambda: f() * 2.0).rows) > 0.3  # another loss: found
    with pytest.raises(ValueError, match="give the parameters"):
        probe.stepper(f()).check(f)


def test_a_wrong_rule_is_found():
    @ta.op(vjps={"x": lambda g, x: g * 2 * x**2})
    def cube(x):
        return x**3

    x = ta.Tensor([1.0, 2.0], requires_grad=True)
    s = probe.stepper(cube(x).sum(), {"x": x})
    assert s.check(lambda: cube(x).sum()).rows[0]["error"] > 0.1


def test_in_a_terminal():
    params, f = small()
    typed, shown = iter(["n", "", "p", "/softmax", "1", "99", "x", "q"]), []
    s = probe.stepper(f(), params)
    run(s, lambda prompt: next(typed), shown.append)
    assert (
        s.place == 0
        and any("no step 98" in text for text in shown)
        and any("/text: find" in text for text in shown[1:])
    )


# ---------------------------------------------------------------------------- the page


def hostile():
    x = ta.Tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    y = (x * x).named("</script><script>document.title='broken'</script>")
    return probe.stepper((ta.softmax(y) * y).sum(), {"x": x})


def test_the_page_is_one_file_and_escapes():
    text = stepper_page(hostile())
    assert "http" not in text and text.count("<script>") == 1 and "src=" not in text
    assert "&lt;/script&gt;" in hostile()._repr_html_()


def test_every_language_has_every_word_that_the_page_asks_for():
    folder = files("tinygrad_attn.probe")
    body, script = ((folder / f"stepper.{kind}").read_text(encoding="utf-8") for kind in ("html", "js"))
    asked = set(re.findall(r"\$(\w+)", body)) | set(re.findall(r"\bSAY\.(\w+)", script))
    english, spanish = words("en"), words("es")
    assert set(english) == set(spanish) == asked and all(english.values()) and all(spanish.values())
    with pytest.raises(ValueError, match="expected one of en, es, got 'fr'"):
        words("fr")


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVE = """
const log = [];
const key = k => document.dispatchEvent(new KeyboardEvent("keydown", {key: k}));
const note = () => log.push($("where").textContent + " " + document.querySelector("#step h2").textContent);
note(); $("next").click(); note(); key("ArrowRight"); note(); key("End"); note(); key("Home"); note();
$("next").click();
const numbers = document.querySelectorAll("#step td").length;
$("numbers").click();
log.push("numbers " + numbers + " " + document.querySelectorAll("#step td").length);
const before = document.querySelectorAll("#step pre").length;
$("jacobians").click();
log.push("jacobians " + (before - document.querySelectorAll("#step pre").length));
log.push("wide " + (document.documentElement.scrollWidth > window.innerWidth));
log.push("title " + document.title);
const out = document.createElement("pre"); out.id = "log"; out.textContent = log.join("|"); document.body.append(out);
"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_in_a_browser(tmp_path):
    s = hostile()
    page = stepper_page(s).replace("</script></body>", DRIVE + "</script></body>")
    (tmp_path / "page.html").write_text(page)
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,800", "--dump-dom"]
    done = subprocess.run([*command, f"file://{tmp_path}/page.html"], capture_output=True, text=True, timeout=120)
    log = done.stdout.split('id="log">')[1].split("</pre>")[0].split("|")
    assert log[0] == f"step 1 of {len(s)} sum" and log[1].startswith(f"step 2 of {len(s)} mul")
    assert log[2].startswith("step 3") and log[3] == f"step {len(s)} of {len(s)} x" and log[4].startswith("step 1 of")
    shown, hidden = log[5].split()[1:]
    assert int(shown) > 0 and int(hidden) == 0
    assert log[6] == "jacobians 2" and log[7] == "wide false"
    assert log[8] == "title Backward, step by step"
