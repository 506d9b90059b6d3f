"""What all tests share: this folder on the import path (optable), and how Hypothesis draws.

The draws are the same in every run; ``pytest --hypothesis-profile explore`` looks further."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # toy matrices: a second BLAS thread only waits for the first
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it: output in a pipe is tested as it is without

from hypothesis import settings

settings.register_profile("same", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("same")
