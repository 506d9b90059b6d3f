"""The stepper in a terminal: one key per move."""

from __future__ import annotations

import os
import sys
from typing import Any

HELP = "n or Enter: on   p: back   12: to step 12   /text: find   h: write step.html   q: leave"


def run(stepper: Any, ask: Any = None, show: Any = print) -> None:
    """Show the step, ask, move; until q or the end of input.  ask(prompt) -> what was typed."""
    show(HELP)
    while True:
        show(f"\n{stepper}\n")
        try:
            typed = (ask or _ask)("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return
        if typed in ("q", "quit"):
            return
        try:
            said = _move(stepper, typed)
        except (IndexError, KeyError) as error:
            said = str(error.args[0])
        except OSError as error:
            said = f"cannot write step.html here: {error.strerror or error}"
        if said:
            show(said)


def _move(stepper: Any, typed: str) -> str:
    """Do what was typed; gives what there is to say about it."""
    if typed in ("", "n", "\x1b[C", "\x1b[B"):
        stepper.next()
    elif typed in ("p", "\x1b[D", "\x1b[A"):
        stepper.back()
    elif typed.startswith("/"):
        stepper.find(typed[1:])
    elif typed == "h":
        stepper.to_html("step.html")
        return "wrote step.html"
    elif typed.lstrip("-").isdigit():
        stepper.go(int(typed) - 1 if int(typed) > 0 else int(typed))
    else:
        return HELP
    return ""


def _ask(prompt: str) -> str:
    """A line; on a terminal that allows it, the keys n, p, q, h and the arrows act at once."""
    try:
        import termios
        import tty
        from select import select

        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except (ImportError, OSError, ValueError):
        return input(prompt)
    try:
        tty.setcbreak(number, termios.TCSADRAIN)  # (the default throws away what was typed ahead)
        key = _read(number, 1)
        if key == "\x1b" and select([number], [], [], 0.05)[0]:  # an arrow sends more; the key Esc alone does not
            key += _read(number, 2)
        if key == "" or key == "\x04":
            raise EOFError
        if key in "npqh\n\r" or key.startswith("\x1b"):
            return key
        print(f"{prompt}{key}", end="", flush=True)
        return key + _line(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _read(number: int, count: int) -> str:
    """Straight from the terminal: sys.stdin would read ahead, and what it holds `select` does not see."""
    return os.read(number, count).decode(errors="replace")


def _line(number: int) -> str:
    """The rest of a line, typed key by key."""
    line = ""
    while (key := _read(number, 1)) not in ("", "\n", "\r", "\x04"):
        if key in "\x7f\b":  # rub out
            print("\b \b" if line else "", end="", flush=True)
            line = line[:-1]
        else:
            print(key, end="", flush=True)
            line += key
    print()
    return line
