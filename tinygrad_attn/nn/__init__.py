"""Layers and models.  Each is a Module: its parameters are its Tensor attributes."""

from ..files.tensors import read_tensors, write_tensors
from .attention import MultiHeadAttention
from .block import MLP, Block
from .cache import KVCache
from .count import ParameterTable, count_parameters
from .layers import Dropout, Embedding, LayerNorm, Linear
from .minigpt import MiniGPT
