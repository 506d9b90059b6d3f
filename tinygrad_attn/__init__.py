"""tinygrad_attn: where does the gradient go in attention?

A small reverse-mode autodiff framework on NumPy or CuPy.  README.md beside this file says in which order to read it.
A name is loaded when it is first asked for, from the module that HOME gives, and stays here from then on."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from .moved import OldPaths

if TYPE_CHECKING:  # what editors and type checkers see; `x as x` is their word for public
    from . import nn as nn
    from . import optim as optim
    from . import probe as probe
    from .attention import additive_attention as additive_attention
    from .attention import attention_block as attention_block
    from .attention import causal_mask as causal_mask
    from .attention import check_mask as check_mask
    from .attention import fused_attention as fused_attention
    from .attention import padding_mask as padding_mask
    from .attention import row_statistics as row_statistics
    from .attention import scaled_dot_product_attention as scaled_dot_product_attention
    from .autodiff import testing as testing
    from .autodiff.backward import Step as Step
    from .autodiff.backward import grad as grad
    from .autodiff.backward import steps as steps
    from .autodiff.create import arange as arange
    from .autodiff.create import from_dlpack as from_dlpack
    from .autodiff.create import ones as ones
    from .autodiff.create import randn as randn
    from .autodiff.create import zeros as zeros
    from .autodiff.derivatives import hvp as hvp
    from .autodiff.derivatives import jacobian as jacobian
    from .autodiff.derivatives import jvp as jvp
    from .autodiff.functions import *  # noqa: F403
    from .autodiff.mode import enable_grad as enable_grad
    from .autodiff.mode import no_grad as no_grad
    from .autodiff.mode import scope as scope
    from .autodiff.operation import op as op
    from .autodiff.random import manual_seed as manual_seed
    from .autodiff.tensor import Tensor as Tensor
    from .nn.module import Module as Module
    from .programs.record import program as program

__version__ = "0.1.0"

HOME = {  # module -> the public names that it holds; a name alone is a module itself
    "attention": """additive_attention attention_block causal_mask check_mask fused_attention padding_mask
        row_statistics scaled_dot_product_attention""",
    "autodiff.backward": "Step grad steps",
    "autodiff.create": "arange from_dlpack ones randn zeros",
    "autodiff.derivatives": "hvp jacobian jvp",
    "autodiff.functions": """abs add add_at astype broadcast_to clip concatenate cos cross_entropy cumsum div dropout
        einsum embedding embedding_sum exp expand_dims expm1 flip gelu getitem layer_norm log log1p log_softmax
        logsumexp masked_fill matmul max maximum mean min minimum mul neg norm pad pow prod relu reshape scatter_add
        sigmoid sign sin softmax split sqrt squeeze stack std sub sum swapaxes take_along_axis tanh transpose tril
        triu unpad var where""",
    "autodiff.mode": "enable_grad no_grad scope",
    "autodiff.operation": "op",
    "autodiff.random": "manual_seed",
    "autodiff.tensor": "Tensor",
    "nn.module": "Module",
    "programs.record": "program",
}
MODULES = {"attention": "attention", "autodiff": "autodiff", "nn": "nn", "optim": "optim", "probe": "probe",
           "testing": "autodiff.testing"}  # fmt: skip
_home = {name: module for module, names in HOME.items() for name in names.split()}
__all__ = sorted({*_home, *MODULES} - {"attention", "autodiff"})

if not TYPE_CHECKING:  # a checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name not in _home and name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = import_module(f"{__name__}.{_home.get(name) or MODULES[name]}")
        globals()[name] = value = getattr(found, name) if name in _home else found
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.meta_path.insert(0, OldPaths())
