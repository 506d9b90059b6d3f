"""The page served on this machine only: marimo's app behind uvicorn, on the loopback address.

marimo runs the notebook in threads of this process, so the model is trained once, here, and the page asks for it."""

from __future__ import annotations

import socket
from pathlib import Path

from ..kit import Speaker, speaker
from .answers import Learned, learn_now

HOST = "127.0.0.1"
_SERVED: dict[str, tuple[Learned, Speaker]] = {}


def served() -> tuple[Learned, Speaker]:
    """The model and the language of the page (outside of a server: a model trained now, English)."""
    if "page" not in _SERVED:
        _SERVED["page"] = (learn_now(), speaker("en"))
    return _SERVED["page"]


def free(port: int) -> bool:
    """Could a server listen there?"""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def serve(learned: Learned, language: str, port: int) -> None:
    """Serve until interrupted.  Errors: ImportError without marimo (the extra ``play``)."""
    import uvicorn
    from marimo import create_asgi_app
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    _SERVED["page"] = (learned, speaker(language))
    page = create_asgi_app(quiet=True).with_app(path="/", root=str(Path(__file__).with_name("app.py"))).build()
    # A page of the web that points a name of its own to 127.0.0.1 is refused: its Host is not ours.
    guarded = TrustedHostMiddleware(page, allowed_hosts=[HOST, "localhost"])
    # An open page holds its line: the end waits for it for a second only.
    uvicorn.run(guarded, host=HOST, port=port, log_level="warning", timeout_graceful_shutdown=1)
