"""Every experiment by its name: ``parameter-free`` is what parameter_free.py declares.

Only the experiment that is asked for is imported."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from .experiment import Experiment


class Catalogue(Mapping[str, Experiment]):
    """name -> experiment.

    Errors: KeyError that lists the names.

    >>> print(EXPERIMENTS["dictionary"](seeds=1).verdicts[0].holds)
    True
    """

    def __init__(self, names: str) -> None:
        self._names = names.split()

    def __getitem__(self, name: str) -> Experiment:
        if name not in self._names:
            raise KeyError(f"no experiment {name!r}; there are {', '.join(self._names)}")
        module = importlib.import_module(f".{name.replace('-', '_')}", __package__)
        return next(found for found in vars(module).values() if isinstance(found, Experiment))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


# in the order of the lessons
EXPERIMENTS = Catalogue(
    "variance temperature dictionary jacobian vanishing learning scorers asymmetry ties definiteness values "
    "concatenated cost agreement heads parameter-free"
)
