"""``tinygrad-attn play [RUN]``: the live page, on this machine only."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import webbrowser
from typing import Any

from rich.console import Console

from ..files.errors import UserError, as_user_error, needs
from .output import console, learning
from .shared_arguments import add_language, add_model, flag, switch

PORT = 2718


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    flag(parser, "--port", "where the page is served", default=PORT)
    add_language(parser)
    switch(parser, "--no-browser", "print the address and open nothing")


def run(arguments: argparse.Namespace) -> int:
    needs("marimo", "play", "the live page")
    from ..pages.play.server import HOST, free, serve

    port = arguments.port
    if not 1 <= port <= 65535:
        raise UserError(f"--port: expected a number from 1 to 65535, got {port}")
    if not free(port):
        other = next((p for p in range(port + 1, min(port + 50, 65536)) if free(p)), None)
        hint = f"; try --port {other}" if other else ""
        raise UserError(f"port {port} is busy: another program (another `tinygrad-attn play`?) listens there{hint}")
    screen = console()
    learned = _learned(screen, arguments)
    address = f"http://{HOST}:{port}"
    screen.print(f"The page: {address}   (this machine only; Ctrl+C ends it)")
    if not arguments.no_browser:
        timer = threading.Timer(1.0, webbrowser.open, [address])
        timer.daemon = True
        timer.start()
    with contextlib.suppress(KeyboardInterrupt):
        serve(learned, arguments.lang, port)
    screen.print("Ended.")
    sys.stdout.flush()
    os._exit(0)  # the threads of pages that are still open would hold the process for ever


def _learned(screen: Console, arguments: argparse.Namespace) -> Any:  # Learned: its module is imported late
    from ..pages.play.answers import learn_now, learned

    if arguments.run_folder is None:
        with learning(screen) as on_step:
            return learn_now(on_step=on_step)
    with as_user_error(ValueError, OSError):
        return learned(arguments.run_folder)
