"""The page served on this machine only: marimo's app behind uvicorn, on the loopback address.

marimo runs the notebook in threads of this process, so the model is trained once, here, and the page asks for it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

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


class OwnOrigin:
    """Another page in the user's browser may neither read this one nor drive it: a request that names a foreign Origin
    is refused.  (Our own page names this server; what opens an address names none.)"""

    def __init__(self, page: Any) -> None:
        self.page = page

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        origin, own = headers.get(b"origin"), b"http://" + headers.get(b"host", b"")
        if origin is None or origin == own:
            await self.page(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"this page answers to its own origin only"})


def serve(learned: Learned, language: str, port: int) -> None:
    """Serve until interrupted.  Errors: ImportError without marimo (the extra ``play``)."""
    import uvicorn
    from marimo import create_asgi_app
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    _SERVED["page"] = (learned, speaker(language))
    page = create_asgi_app(quiet=True).with_app(path="/", root=str(Path(__file__).with_name("app.py"))).build()
    # A page of the web that points a name of its own to 127.0.0.1 is refused: its Host is not ours.
    guarded = TrustedHostMiddleware(OwnOrigin(page), allowed_hosts=[HOST, "localhost"])
    # An open page holds its line: the end waits for it for a second only.
    uvicorn.run(guarded, host=HOST, port=port, log_level="warning", timeout_graceful_shutdown=1)
