"""The probe: see, step through and question the gradient flow of attention.

watch      value and gradient of named intermediates, every head apart
zeros      why entries of a gradient read 0: structural, underflow, rounding
stepper    backward node by node, forth and back: rule, line, gradients, local Jacobian
ledger     one gradient broken down by the routes it came along
meters     how saturated the softmax of each head is; Recorder: during training, with an alarm
compare    the same model with and without 1/sqrt(d_k), along the chain
lens       M = W_Q W_K^T per head: rank, singular values, symmetric and antisymmetric share
doctor     what is wrong here: where, why it matters, what to change
"""

from .compare import Twin, compare
from .doctor.examine import doctor
from .doctor.finding import Finding, Report
from .ledger import Ledger, ledger
from .lens import Form, Lens, form, lens
from .meters import Meter, meters
from .recorder import Alarm, Recorder, meters_table, read_history
from .stepper import Stepper, stepper
from .watch import watch
from .zeros import KINDS, zeros
