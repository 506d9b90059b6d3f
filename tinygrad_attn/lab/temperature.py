"""softmax(scores / T): from one key to all keys, and the soft dictionary in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..attention import scaled_dot_product_attention
from ..autodiff.functions import softmax
from ..probe.meters import rows as meters_of
from ..show.table import Column, number
from .result import LabTable, Picture, Progress, Verdict, quiet
from .words import speaker

KEYS, SAMPLES = 16, 200
TEMPERATURES = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
DICTIONARY = {"red": 1.0, "green": 4.0, "blue": 9.0, "black": 16.0}


def temperature_and_entropy(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    temperatures: Sequence[float] = TEMPERATURES,
) -> LabTable:
    """Entropy, largest weight and Jacobian of softmax(s / T), for scores s ~ N(0,1) and rising T.

    Claim: the entropy rises with T in every row (dH/dT = Var_p(s) / T^3 >= 0), from 0 at T -> 0 (one key) to log n at
    T -> infinity (all keys alike).  Refuted by a row whose entropy falls as T rises, or by other limits.  Near
    T -> infinity 1 - H/log n is Var(s)/(2 T^2 log n): at T = 100 below 1e-4.

    A third thing shows: the gradient that reaches the scores of a typical (median) row has the norm |Jacobian| / T, and
    vanishes at *both* ends: at low T because the Jacobian does, at high T because of the factor 1/T.
    """
    say = speaker(language)
    scores = np.concatenate(
        [np.random.default_rng([seed, 5]).standard_normal((SAMPLES, KEYS)) for seed in range(seeds)]
    )
    rows, entropies = [], []
    for i, T in enumerate(temperatures):
        found = meters_of(softmax(scores / T).numpy())
        entropies.append(found.entropy)
        rows.append(
            {
                "temperature": T,
                "entropy": float(found.entropy.mean()),
                "largest": float(found.largest.mean()),
                "jacobian": float(np.median(found.jacobian)),
                "slope": float(np.median(found.jacobian)) / T,
            }
        )
        on_step(i + 1, len(temperatures))
    falls = float(max((low - high).max() for low, high in zip(entropies, entropies[1:]))) if len(rows) > 1 else 0.0
    cold, hot = rows[0], rows[-1]
    steepest = max(rows, key=lambda row: row["slope"])
    verdicts = [
        Verdict(
            say(
                "The entropy rises with the temperature, in every row.",
                "La entropía sube con la temperatura, en cada fila.",
            ),
            say(f"largest fall {max(falls, 0.0):.1g}", f"mayor descenso {max(falls, 0.0):.1g}"),
            falls < 1e-12,
        ),
        Verdict(
            say("T to 0 gives entropy 0: one key.", "T hacia 0 da entropía 0: una sola clave."),
            f"H/log n = {number(cold['entropy'])}, T = {cold['temperature']:g}",
            cold["entropy"] < 0.01,
        ),
        Verdict(
            say("T to infinity gives log n: all keys alike.", "T hacia infinito da log n: todas las claves iguales."),
            f"1 - H/log n = {number(1 - hot['entropy'], 2)}, T = {hot['temperature']:g}",
            1 - hot["entropy"] < 1e-3,
        ),
        Verdict(
            say(
                "The typical gradient to the scores vanishes at both ends.",
                "El gradiente típico hacia las puntuaciones se desvanece en ambos extremos.",
            ),
            say(f"largest at T = {steepest['temperature']:g}", f"máximo en T = {steepest['temperature']:g}"),
            max(cold["slope"], hot["slope"]) < 0.1 * steepest["slope"],
        ),
    ]
    return LabTable(
        say("Temperature: from one key to all keys", "Temperatura: de una clave a todas las claves"),
        [
            Column("temperature", "T", "{:g}".format),
            Column("entropy", say("entropy\n/ log n", "entropía\n/ log n"), "{:.4f}".format),
            Column("largest", say("largest\nweight", "peso\nmayor"), "{:.4f}".format),
            Column("jacobian", say("median\nJacobian", "jacobiano\nmediano"), lambda x: number(x, 2)),
            Column("slope", say("the same\n/ T", "lo mismo\n/ T"), lambda x: number(x, 2)),
        ],
        rows,
        [
            say(
                f"{len(scores):,} rows of {KEYS} scores N(0,1); means (Jacobian: medians of its norm).",
                f"{len(scores):,} filas de {KEYS} puntuaciones N(0,1); medias (jacobiano: medianas de su norma).",
            )
        ],
        verdicts=verdicts,
        picture=Picture("temperature", "entropy", log_x=True),
        say=say,
    )


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


def soft_dictionary(
    seeds: int = 5,
    language: str = "en",
    on_step: Progress = quiet,
    *,
    temperatures: Sequence[float] = (10.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02),
    key: str = "green",
) -> LabTable:
    """The same lookup at falling temperature, for random unit keys: attention becomes ``d[key]``.

    Claim: a hard lookup is the limit T -> 0.  With gap = the score of the right key minus that of the runner-up, the
    error is at most (n - 1) e^(-gap/T) times the range of the values.  Refuted by an error above that bound.
    """
    say = speaker(language)
    values = np.array(list(DICTIONARY.values()))
    span = float(values.max() - values.min())
    rows = []
    for i, T in enumerate(temperatures):
        found, errors, bounds, weights = [], [], [], []
        for seed in range(seeds):
            keys = _unit_keys(seed)
            value, weight = soft_lookup(DICTIONARY, key, T, keys)
            gap = min(1.0 - float(keys[name] @ keys[key]) for name in DICTIONARY if name != key)
            found.append(value)
            errors.append(abs(value - DICTIONARY[key]))
            bounds.append((len(values) - 1) * np.exp(-gap / T) * span)
            weights.append(weight[list(DICTIONARY).index(key)])
        rows.append(
            {
                "temperature": T,
                "found": float(np.mean(found)),
                "weight": float(np.mean(weights)),
                "error": max(errors),
                "within": bool((np.array(errors) <= np.array(bounds) * (1 + 1e-9) + 1e-12).all()),
            }
        )
        on_step(i + 1, len(temperatures))
    cold, hot = rows[-1], rows[0]
    within = all(row["within"] for row in rows)
    bound = say("within the bound", "dentro de la cota") if within else say("beyond the bound", "fuera de la cota")
    verdicts = [
        Verdict(
            say(
                "A hard lookup is the limit of low temperature.", "La búsqueda exacta es el límite de baja temperatura."
            ),
            say(
                f"d[{key!r}] = {DICTIONARY[key]:g}, found {cold['found']:.6f} at T = {cold['temperature']:g}, {bound}",
                f"d[{key!r}] = {DICTIONARY[key]:g}, hallado {cold['found']:.6f} con T = {cold['temperature']:g}, {bound}",
            ),
            cold["error"] < 1e-2 and within,
        ),
        Verdict(
            say("A hot lookup is the mean of all values.", "Una búsqueda caliente es la media de todos los valores."),
            f"{hot['found']:.3f} / {values.mean():.3f}",
            abs(hot["found"] - values.mean()) < 0.1 * span,
        ),
    ]
    return LabTable(
        say(f"A soft dictionary: d[{key!r}] by attention", f"Un diccionario blando: d[{key!r}] por atención"),
        [
            Column("temperature", "T", "{:g}".format),
            Column("found", say("value\nfound", "valor\nhallado"), "{:.4f}".format),
            Column("weight", say("weight of\nthe key", "peso de\nla clave"), "{:.4f}".format),
            Column("error", say("largest\nerror", "mayor\nerror"), lambda x: number(x, 2)),
        ],
        rows,
        [
            " ".join(f"{name}: {value:g}" for name, value in DICTIONARY.items()),
            say(
                f"seeds: {seeds}; means over random unit keys.",
                f"semillas: {seeds}; medias con claves unitarias al azar.",
            ),
        ],
        verdicts=verdicts,
        picture=Picture("temperature", "found", log_x=True),
        say=say,
    )


def _unit_keys(seed: int) -> dict[str, np.ndarray]:
    keys = np.random.default_rng([seed, 6]).standard_normal((len(DICTIONARY), 16))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    return dict(zip(DICTIONARY, keys))
