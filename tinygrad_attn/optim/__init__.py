"""Optimisers, learning-rate schedules, clipping."""

from .clip import clip_grad_norm
from .optimizers import SGD, Adam, AdamW, Optimizer
from .schedule import warmup_cosine
