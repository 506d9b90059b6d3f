"""The package's own sources, read as text: for the tests of its size and of its shape."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "tinygrad_attn"
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
Documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def sources() -> dict[str, str]:
    """The text of every module by its path inside the package, as ``autodiff/ops/softmax.py``."""
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def room(path: str) -> str:
    """The folder that a file of the package lies in; the package's own files are the ``root``."""
    return path.partition("/")[0] if "/" in path else "root"


def code_lines(text: str) -> int:
    """Lines that hold code: no blanks, no comments, no docstrings.

    >>> code_lines('def f():\\n    "What f does."\\n\\n    return 1  # one\\n')
    2
    """
    documented = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, Documented) and ast.get_docstring(node)
    )
    docstrings = {line for node in documented for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    tokens = (t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in NOT_CODE)
    return len({line for t in tokens for line in range(t.start[0], t.end[0] + 1)} - docstrings)
