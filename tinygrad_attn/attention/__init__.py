"""Attention: softmax(q k^T / sqrt(d_k)) v, explicit (every step visible), fused (low memory), additive."""

from .additive import additive_attention
from .explicit import scaled_dot_product_attention
from .fused import fused_attention
from .mask_check import MaskFinding, check_mask
from .masks import causal_mask, padding_mask, picture
from .statistics import attention_block, row_statistics
