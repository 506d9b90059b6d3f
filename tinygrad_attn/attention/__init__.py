"""Attention: softmax(q k^T / sqrt(d_k)) v, explicit (every step visible), fused (low memory), additive."""

from .explicit import scaled_dot_product_attention
from .fused import fused_attention
