"""The doctor: what is wrong with the gradient flow of a model, why it matters, what to change.

Read evidence.py (what is gathered) and one file of checks: tape.py, numbers.py or attention.py.  To add a check:

1. kinds.toml: a table with the name of the kind, its ``why`` and its ``change``.
2. tape.py, numbers.py or attention.py: a generator ``_my_check(e: Evidence)`` that yields ``found(kind, line, what)``.
3. The same file: ``yield from _my_check(e)`` in ``findings``.
4. tests/probe/faults: a small function with the fault, its line marked ``# FAULT``, and a row in ``FAULTS``.
5. The healthy models of tests/probe/test_doctor.py must stay without a finding.
"""

from .examine import doctor
