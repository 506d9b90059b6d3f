"""Every experiment by name: where it lives, and the question it answers, in both languages.

Only the experiment that is asked for is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

from .result import LabTable, Progress, quiet


class Experiment(NamedTuple):
    module: str
    function: str
    en: str
    es: str

    def load(self) -> Callable[..., LabTable]:
        """The function itself."""
        found: Callable[..., LabTable] = getattr(importlib.import_module(f".{self.module}", __package__), self.function)
        return found


EXPERIMENTS = {
    "variance": Experiment(
        "variance",
        "score_variance",
        "How large are scores of random vectors?",
        "¿Qué tamaño tienen las puntuaciones al azar?",
    ),
    "temperature": Experiment(
        "temperature",
        "temperature_and_entropy",
        "What does a temperature do to the weights?",
        "¿Qué hace la temperatura con los pesos?",
    ),
    "dictionary": Experiment(
        "temperature",
        "soft_dictionary",
        "When does attention become d[key]?",
        "¿Cuándo se vuelve la atención un d[clave]?",
    ),
    "jacobian": Experiment(
        "saturation",
        "jacobian_and_saturation",
        "What is left of softmax's Jacobian at large scores?",
        "¿Qué queda del jacobiano de softmax con puntuaciones grandes?",
    ),
    "vanishing": Experiment(
        "vanished",
        "vanishing_gradients",
        "Where do gradients vanish, and where do they not?",
        "¿Dónde se desvanecen los gradientes y dónde no?",
    ),
    "learning": Experiment(
        "learning",
        "learning_with_and_without_scaling",
        "Does a model without 1/sqrt(d_k) stop learning?",
        "¿Deja de aprender un modelo sin 1/sqrt(d_k)?",
    ),
    "scorers": Experiment(
        "scorers",
        "additive_dot_and_scaled",
        "Additive, dot product or scaled dot product?",
        "¿Aditiva, producto escalar o producto escalado?",
    ),
    "asymmetry": Experiment(
        "asymmetry", "asymmetry_of_scores", "Is the attention matrix symmetric?", "¿Es simétrica la matriz de atención?"
    ),
    "ties": Experiment("ties", "tied_and_independent", "Do we need three matrices?", "¿Hacen falta tres matrices?"),
    "definiteness": Experiment(
        "definiteness", "rank_and_definiteness", "What can M = W_Q W_K^T be?", "¿Qué puede ser M = W_Q W_K^T?"
    ),
    "values": Experiment("values", "width_of_values", "May d_v differ from d_k?", "¿Puede d_v diferir de d_k?"),
    "concatenated": Experiment(
        "concatenated",
        "concatenated_and_separate",
        "Is one W_QKV the same as separate heads, and faster?",
        "¿Equivale una sola W_QKV a cabezas separadas, y es más rápida?",
    ),
    "cost": Experiment(
        "cost", "cost_of_length", "How does the cost grow with the length?", "¿Cómo crece el coste con la longitud?"
    ),
    "agreement": Experiment(
        "where_to_look",
        "agreement_over_seeds",
        "Does attention find out where to look?",
        "¿Averigua la atención adónde mirar?",
    ),
    "heads": Experiment(
        "heads",
        "one_wide_or_four_narrow",
        "One wide head or four narrow ones?",
        "¿Una cabeza ancha o cuatro estrechas?",
    ),
    "parameter-free": Experiment(
        "nothing_to_train",
        "parameter_free_and_learned",
        "What can attention do without weights?",
        "¿Qué puede la atención sin pesos?",
    ),
}


def experiment(name: str, seeds: int | None = None, language: str = "en", on_step: Progress = quiet) -> LabTable:
    """Run one experiment by its name; `seeds` None: its own default.

    Errors: KeyError that lists the names.

    >>> print(experiment("dictionary", seeds=1).verdicts[0].holds)
    True
    """
    if name not in EXPERIMENTS:
        raise KeyError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    settings = {} if seeds is None else {"seeds": seeds}
    return EXPERIMENTS[name].load()(language=language, on_step=on_step, **settings)
