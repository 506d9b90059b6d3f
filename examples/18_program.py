"""The program: what attention's forward and backward really compute, as NumPy lines.

`ta.program` runs a step once and notes every array call.  The same list is printed for a reader, run on other
numbers, compared with another list, and written as a file that needs NumPy alone.  Here: attention with and without
1/sqrt(d_k).  Their programs differ in one number; the norms say at which line the gradient dies.
"""

import subprocess
import sys
import tempfile

import numpy as np

import tinygrad_attn as ta

N, D_MODEL, D_K = 8, 32, 64
rng = np.random.default_rng(0)
x = rng.standard_normal((N, D_MODEL)).astype(np.float32)
W_Q, W_K, W_V = (
    ta.Tensor(rng.standard_normal((D_MODEL, D_K)).astype(np.float32) / 2, requires_grad=True) for _ in "QKV"
)


def step_with(scale):
    def step(x):
        for W in (W_Q, W_K, W_V):
            W.grad = None
        x = ta.Tensor(x)
        out, _ = ta.scaled_dot_product_attention(x @ W_Q, x @ W_K, x @ W_V, scale=scale)
        loss = (out * out).mean()
        loss.backward()
        return loss

    return step


scaled, unscaled = ta.program(step_with(None), x), ta.program(step_with(1.0), x)

print("The program of attention, one line for each operation:\n")
print(scaled)

print("\nOne rule, call by call: dL/dscores from dL/dweights, softmax's backward:\n")
rule = [row for row in scaled.calls().splitlines() if "dL/dx of softmax" in row]
print("\n".join(rule))

print("\nScaled (-) and unscaled (+), and the norms where both have the line (=):\n")
difference = scaled.diff(unscaled, numbers=True)
print(difference)
changed = [row for row in difference.splitlines() if row[0] in "-+"]
assert len(changed) == 4 and all(" * " in row for row in changed)  # the scale, in forward and in backward

# Where does it die?  Follow the norms backward: the gradient of the weights is healthy, that of the scores is not.
norms = unscaled.run(trace=True).norms
softmax = [line for line in unscaled.lines if line.op == "softmax" and line.phase == "backward"]
into, out = norms[softmax[0].number - 2], norms[softmax[-1].number]
print(f"\nunscaled: norm {into:.3g} into softmax's rule, {out:.3g} out of it")
assert out < into / 10

# The same as a file of its own: NumPy alone, the inputs and weights inside.
with tempfile.TemporaryDirectory() as folder:
    path = unscaled.save(folder)
    done = subprocess.run([sys.executable, "-I", path], cwd=folder, capture_output=True, text=True, check=True)
print("\npython -I program.py, without tinygrad_attn:\n")
print(done.stdout)
assert done.stdout.splitlines() == unscaled.answers()  # bit for bit
