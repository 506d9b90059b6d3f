"""Four small matrices a head, three large ones, or one: the same numbers, ever fewer products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..attention import scaled_dot_product_attention
from ..autodiff.blas import one_thread_blas
from ..autodiff.functions import concatenate
from ..autodiff.tensor import Tensor
from ..nn import MultiHeadAttention
from .counting import count, milliseconds
from .experiment import Run, experiment
from .result import Column, number, slashed

D_MODEL, HEADS, BATCH, TOKENS = 64, 4, 8, 32
HEAD_BY_HEAD = "a head at a time"

Form = Callable[[Tensor], Tensor]


@experiment(
    "Is one W_QKV the same as separate heads, and faster?",
    seeds=3,
    title="Heads apart, and concatenated",
    columns=[
        Column("form", "form", left=True),
        Column("products", "products"),
        Column("milliseconds", "one step", number),
        Column("speed", "speed", "{:.2f}".format),
    ],
    units={"milliseconds": "ms"},
)
@one_thread_blas()
def concatenated_and_separate(run: Run, *, repeats: int = 15) -> None:
    """Multi-head attention from the same weights in three forms: one head at a time (W_Q, W_K, W_V of 64 x 16 each),
    three matrices of 64 x 64, and one W_QKV of 64 x 192.

    Claim: equal outputs and gradients, and the fewer, larger products are faster.  Refuted by outputs or gradients that
    differ by more than rounding (1e-5 of their size in float32).  The products are counted; the clock is shown, the
    fastest of alternating runs of forward and backward (a busy machine only adds), and differs from machine to machine.
    """
    worst, products = 0.0, {}
    fastest: dict[str, float] = {}
    for seed in run.each(range(run.seeds)):
        x = np.random.default_rng([seed, 10]).standard_normal((BATCH, TOKENS, D_MODEL)).astype(np.float32)
        seeded = np.random.default_rng([seed, 11]).standard_normal(x.shape).astype(np.float32)
        forms, results = _forms(seed), []
        for name, (form, weights) in forms.items():
            given = Tensor(x, requires_grad=True)
            out = form(given)
            products[name] = count(out).products
            out.backward(seeded)
            dW = np.concatenate([_gradient(W) for W in weights], axis=1)  # (64, 192)
            results.append([out.numpy(), _gradient(given), *np.split(dW, 3, axis=1)])
        worst = max(worst, *(_apart(ours, theirs) for same in results[1:] for ours, theirs in zip(same, results[0])))
        for name, (form, _) in list(forms.items()) * repeats:
            clock = milliseconds(lambda: form(Tensor(x, requires_grad=True)).backward(seeded))
            fastest[name] = min(fastest.get(name, clock), clock)

    for name, clock in fastest.items():
        run.row(form=name, products=products[name], milliseconds=clock, speed=fastest[HEAD_BY_HEAD] / clock)
    run.note(
        "d_model 64, 4 heads, batch 8 x 32; products of one forward pass; the fastest of {} alternating runs.",
        run.seeds * repeats,
    )
    sentence = "The three forms are equal, outputs and gradients."
    run.verdict(sentence, worst < 1e-5, "largest relative difference {:.1g}", worst)
    speeds = run.column("speed")
    faster = min(speeds[1:]) > 1.0
    run.verdict("Fewer, larger products are faster.", faster, "speed {}", slashed("{:.2f}".format, speeds))


def _apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, as a share of the size."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def _forms(seed: int) -> dict[str, tuple[Form, list[Tensor]]]:
    """Each form as a function x -> out, and its weights: side by side W_Q, W_K and W_V, 64 x 192."""
    three = MultiHeadAttention(D_MODEL, HEADS, seed, attention="explicit", sigma=D_MODEL**-0.5)
    one = MultiHeadAttention(D_MODEL, HEADS, seed, packed=True, attention="explicit", sigma=D_MODEL**-0.5)
    large = [three.W_Q, three.W_K, three.W_V]
    small = [Tensor(part, requires_grad=True) for W in large for part in np.split(W.numpy(), HEADS, axis=1)]

    def head_by_head(x: Tensor) -> Tensor:
        mixes = []
        for W_Q, W_K, W_V in zip(small[:HEADS], small[HEADS:], small[2 * HEADS :]):  # (64, 16) each
            mixes.append(scaled_dot_product_attention(x @ W_Q, x @ W_K, x @ W_V)[0])
        return concatenate(mixes, axis=-1) @ three.W_O

    return {HEAD_BY_HEAD: (head_by_head, small), "W_Q, W_K, W_V": (three, large), "one W_QKV": (one, [one.W_QKV])}


def _gradient(W: Tensor) -> np.ndarray:
    assert W.grad is not None
    return W.grad.numpy()
