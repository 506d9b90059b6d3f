"""``python -m tinygrad_attn`` is the command ``tinygrad-attn``."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
