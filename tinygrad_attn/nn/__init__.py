"""Layers and models.  Each is a Module: its parameters are its Tensor attributes."""

from .attention import KVCache, MultiHeadAttention
from .block import Block
from .layers import Dropout, Embedding, LayerNorm, Linear
