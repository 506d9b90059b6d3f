"""Step through backward: at each node the rule, the line that made it, what arrives and what is sent on.

In a terminal `python 14_stepper.py go` moves by keys.  In a notebook the stepper draws itself.  The page
it writes is one file that opens from disk.
"""

import sys
import tempfile
from pathlib import Path

import tinygrad_attn as ta

q = ta.Tensor([[1.0, 0.0], [0.5, -1.0]], requires_grad=True)
k = ta.Tensor([[1.0, 1.0], [-1.0, 0.5]], requires_grad=True)
v = ta.Tensor([[2.0], [-1.0]], requires_grad=True)


def loss():
    scores = q @ k.mT / 2**0.5
    weights = ta.softmax(scores)
    return (weights @ v).sum()


stepper = ta.probe.stepper(loss(), {"q": q, "k": k, "v": v})
if "go" in sys.argv:
    stepper.run()
    sys.exit()

print(stepper.find("softmax"))  # the step where attention decides
print("\n--- and back, towards the loss:\n")
print(stepper.back().view.line)

# Are the rules right?  The sums at the leaves against central differences.
check = stepper.check(loss)
print(f"\n{check}")
assert all(row["error"] < 1e-5 for row in check.rows)

# All steps as one page that opens from disk.
page = Path(tempfile.mkdtemp()) / "backward.html"
stepper.to_html(page)
print(f"\n{len(stepper)} steps in a page of {page.stat().st_size // 1000} kB: {page.name}")
