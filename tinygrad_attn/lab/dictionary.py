"""The soft dictionary: attention looks up ``d[key]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..attention import scaled_dot_product_attention
from .experiment import Run, experiment
from .result import Column, Picture, two_digits

DICTIONARY = {"red": 1.0, "green": 4.0, "blue": 9.0, "black": 16.0}


def soft_lookup(
    dictionary: Mapping[str, float], key: str, temperature: float, keys: Mapping[str, np.ndarray]
) -> tuple[float, np.ndarray]:
    """d[key], softly: attention of the query ``keys[key]`` over all keys; the value found and the weights.

    >>> soft_lookup({"a": 1.0, "b": 5.0}, "b", 0.01, {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0])})[0]
    5.0
    """
    k = np.stack([keys[name] for name in dictionary])  #             (n, d)
    v = np.array([[value] for value in dictionary.values()])  #      (n, 1)
    out, weights = scaled_dot_product_attention(keys[key][None], k, v, scale=1.0 / temperature)
    return out.item(), weights.numpy()[0]


@experiment(
    "When does attention become d[key]?",
    title="A soft dictionary: d[{key!r}] by attention",
    columns=[
        Column("temperature", "T", "{:g}".format),
        Column("found", "value\nfound", "{:.4f}".format),
        Column("weight", "weight of\nthe key", "{:.4f}".format),
        Column("error", "largest\nerror", two_digits),
    ],
    picture=Picture("temperature", "found", log_x=True),
)
def soft_dictionary(
    run: Run, *, temperatures: Sequence[float] = (10.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02), key: str = "green"
) -> None:
    """The same lookup at falling temperature, for random unit keys: attention becomes ``d[key]``.

    Claim: a hard lookup is the limit T -> 0.  With gap = the score of the right key minus that of the runner-up, the
    error is at most (n - 1) e^(-gap/T) times the range of the values.  Refuted by an error above that bound.
    """
    values = np.array(list(DICTIONARY.values()))
    span, right = float(values.max() - values.min()), DICTIONARY[key]
    for T in run.each(temperatures):
        found, errors, bounds, weights = [], [], [], []
        for keys in run.over_seeds(_unit_keys):
            value, weight = soft_lookup(DICTIONARY, key, T, keys)
            gap = min(1.0 - float(keys[name] @ keys[key]) for name in DICTIONARY if name != key)
            found.append(value)
            errors.append(abs(value - right))
            bounds.append((len(values) - 1) * np.exp(-gap / T) * span)
            weights.append(weight[list(DICTIONARY).index(key)])
        within = bool((np.array(errors) <= np.array(bounds) * (1 + 1e-9) + 1e-12).all())
        means = {"found": float(np.mean(found)), "weight": float(np.mean(weights))}
        run.row(temperature=T, **means, error=max(errors), within=within)
    run.note(" ".join(f"{name}: {value:g}" for name, value in DICTIONARY.items()))
    run.note("seeds: {seeds}; means over random unit keys.")
    cold, hot, within = run.rows[-1], run.rows[0]["found"], all(run.column("within"))
    run.verdict(
        "A hard lookup is the limit of low temperature.",
        cold["error"] < 1e-2 and within,
        "d[{key!r}] = {:g}, found {:.6f} at T = {:g}, within the bound"
        if within
        else "d[{key!r}] = {:g}, found {:.6f} at T = {:g}, beyond the bound",
        *(right, cold["found"], cold["temperature"]),
    )
    mean = values.mean()
    run.verdict("A hot lookup is the mean of all values.", abs(hot - mean) < 0.1 * span, f"{hot:.3f} / {mean:.3f}")


def _unit_keys(seed: int) -> dict[str, np.ndarray]:
    keys = np.random.default_rng([seed, 6]).standard_normal((len(DICTIONARY), 16))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    return dict(zip(DICTIONARY, keys))
