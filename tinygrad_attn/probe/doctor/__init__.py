"""The doctor: what is wrong with the gradient flow of a model, why it matters, what to change."""

from .examine import doctor
