"""What the user can put right: one class of error, and how other errors become it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class UserError(Exception):
    """Something the user can put right: the command line prints it as one line, exit code 2."""


class Missing(UserError, ImportError):
    """An optional package that is not installed, and how to install it."""


@contextmanager
def as_user_error(*kinds: type[BaseException], doing: str = "", remedy: str = "") -> Iterator[None]:
    """Inside the block an error of these kinds is the user's to put right: its message becomes a UserError.

    doing: what failed, in front of the message.  remedy: what to do instead, behind it.

    >>> with as_user_error(OSError, doing="cannot read it", remedy="give another file"):
    ...     open("/does/not/exist")
    Traceback (most recent call last):
    tinygrad_attn.files.errors.UserError: cannot read it: No such file or directory; give another file
    """
    try:
        yield
    except (UserError, BrokenPipeError):  # (the second: nobody reads what we print, which is nobody's error)
        raise
    except kinds as error:
        reason = str(error.args[0] if len(error.args) == 1 else error)
        if doing:  # something outside of this program failed: its first line says what
            reason = getattr(error, "strerror", None) or (reason or type(error).__name__).splitlines()[0]
            reason = f"{doing}: {reason}"
        raise UserError(f"{reason}; {remedy}" if remedy else reason) from error


def needs(module: str, extra: str, what: str = "this") -> Any:
    """An optional package, imported.  extra: the extra of this package that installs it.  Errors: Missing.

    >>> needs("no_such_module", "viz", "a picture")
    Traceback (most recent call last):
    tinygrad_attn.files.errors.Missing: a picture needs no_such_module: pip install 'tinygrad_attn[viz]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        reason = "" if getattr(error, "name", None) in (module, package) else f" ({error})"
        raise Missing(f"{what} needs {package}{reason}: pip install 'tinygrad_attn[{extra}]'") from error
    except Exception as error:  # installed, but broken here: a backend that is not there, a library that does not fit
        raise Missing(f"{what} needs {module}, which cannot be used here: {error}") from error
