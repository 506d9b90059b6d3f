"""The probe: see, step through and question the gradient flow of attention.

    watch      value and gradient of named intermediates, every head apart
    zeros      why entries of a gradient read 0: structural, underflow, rounding
    ledger     one gradient broken down by the routes it came along
"""

from .ledger import Ledger, ledger
from .small import KINDS
from .watch import watch
from .zeros import zeros
