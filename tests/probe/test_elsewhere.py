"""The probe on a device that is not NumPy's, and a training step in a process that never imported it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import probe

sys.path.insert(0, str(Path(__file__).parent.parent))
import strict_device

strict_device.register()


@pytest.fixture(scope="module")
def there():
    """A block and its input on the strict device, which refuses to become a NumPy array silently."""
    model = ta.nn.Block(8, 2, seed=0, causal=True, sigma=0.5).to("strict")
    x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 4, 8)), True, dtype="float32", device="strict")
    return model, x, lambda: (model(x) * model(x)).mean()


def test_watch_and_meters(there):
    model, _, loss = there
    recorder = probe.Recorder(model, every=1)
    with recorder.at(0), probe.watch(model, "*") as seen:
        loss().backward()
    assert seen["attn.scores"].grad.device == "strict"
    assert seen.table().rows and len(recorder.latest) == 2


def test_ledger_zeros_lens_and_twin(there):
    model, x, loss = there
    assert "residual" in str(probe.ledger(loss(), x))
    assert probe.zeros(loss(), x).shape == x.shape
    assert probe.lens(model)["attn"][0].rank == 4
    twin = probe.compare(lambda scale: ta.nn.MultiHeadAttention(8, 2, seed=0, scale=scale).to("strict"), x)
    assert twin.table().rows


def test_stepper_and_doctor(there):
    model, _, loss = there
    s = probe.stepper(loss(), model)
    assert all(str(s.at(place)) for place in range(len(s)))
    assert max(row["error"] for row in s.check(loss).rows) < 1e-4
    assert not probe.doctor(loss, model) and not probe.doctor(loss(), model)


STEP = """
import sys, hashlib
import numpy as np
import tinygrad_attn as ta
{more}
model, x = ta.nn.Block(8, 2, seed=0, causal=True), ta.Tensor(np.ones((2, 4, 8)), dtype="float32")
optimizer = ta.optim.AdamW(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    out = model(x)
    (out * out).mean().backward()
    optimizer.step()
step()
calls = []
def note(frame, event, what):
    if event in ("call", "c_call"):
        calls.append(frame.f_code.co_qualname if event == "call" else getattr(what, "__name__", "?"))
sys.setprofile(note)
step()
sys.setprofile(None)
print(len(calls), hashlib.sha256("|".join(calls).encode()).hexdigest(), "tinygrad_attn.probe" in sys.modules)
"""


def test_a_step_is_the_same_whether_or_not_the_probe_was_imported():
    """The same Python calls and the same calls into NumPy, in the same order."""
    found = []
    for more in ("", "from tinygrad_attn import probe; probe.watch; probe.doctor"):
        done = subprocess.run(
            [sys.executable, "-c", STEP.format(more=more)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0][:2] == found[1][:2] and int(found[0][0]) > 100
    assert [found[0][2], found[1][2]] == ["False", "True"]
