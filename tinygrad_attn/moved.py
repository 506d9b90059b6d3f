"""Old import paths, for one version: each leads to the module that took its place, and says so once."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# old path -> new path, both inside the package; what lies below a room moved with it
PATHS = {
    "backend": "autodiff.arrays",
    "mode": "autodiff.mode",
    "draws": "autodiff.random",
    "graph": "autodiff.graph",
    "operation": "autodiff.operation",
    "ops": "autodiff.ops",
    "walk": "autodiff.walk",
    "backward": "autodiff.backward",
    "tensor": "autodiff.tensor",
    "functions": "autodiff.functions",
    "making": "autodiff.create",
    "derivatives": "autodiff.derivatives",
    "testing": "autodiff.testing",
    "module": "nn.module",
    "nn.tensorfile": "files.tensors",
    "train.agreement": "tasks.agreement",
    "train.tasks": "tasks.letters",
    "train.text": "tasks.text",
    "train.reader": "tasks.reader",
    "lab.saturation": "lab.jacobian",
    "lab.vanished": "lab.vanishing",
    "lab.where_to_look": "lab.agreement",
    "lab.nothing_to_train": "lab.parameter_free",
    "report": "pages.report",
    "play": "pages.play",
    "commands": "cli",
    "show.trace": "probe.trace",
}


class OldPaths:
    """Asked first: a folder that an older checkout left behind, with nothing but byte code in it, would answer too.

    Finder and loader by their methods: the base classes for them (importlib.abc) take longer to load than we do."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(name, loader) if new_path(name) else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own empty module will do."""

    def exec_module(self, module: ModuleType) -> None:
        new = new_path(module.__name__)
        warnings.warn(f"{module.__name__} has moved: write {new}", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)


def new_path(name: str) -> str:
    """The module that stands now for what was called `name`; "" where nothing has moved.

    >>> new_path("tinygrad_attn.ops.softmax")
    'tinygrad_attn.autodiff.ops.softmax'
    """
    package, _, rest = name.partition(".")
    for old, new in PATHS.items() if package == __package__ else ():
        if rest == old or rest.startswith(old + "."):
            return f"{package}.{new}{rest.removeprefix(old)}"
    return ""
