"""Refuse requests that do not come from the page itself: other hosts, other origins, no token.

The server listens only on 127.0.0.1, but any web site that is open in the same browser could send requests
to it. So the first part of every path is a random token, `Host` must be this server (another host name that
resolves to 127.0.0.1 is refused), and `Origin` and `Sec-Fetch-Site`, if a browser sends them, must be those
of this page.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
MOST_BYTES = 2**24  # largest size of a request
MOST_CHARACTERS = 500  # of a path; Python refuses to read numbers of thousands of digits


class WebGuard:
    """Middleware that forwards requests whose path begins with the token, and answers 403 to all others."""

    def __init__(self, app: AsgiApp, token: str, port: int):
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if reason := self.refusal(scope):
            await _refuse(send, reason)
            return
        path = scope["path"].removeprefix(f"/{self.token}")
        if not path:
            await _redirect(send, f"/{self.token}/")
            return
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await self.app(inner, receive, _with_headers(send))

    def refusal(self, scope: Scope) -> str:
        """Return why a request is refused; "" if it is allowed."""
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        if headers.get("host") not in self.hosts:
            return "This server only answers requests to 127.0.0.1."
        if headers.get("origin", next(iter(self.origins))) not in self.origins:
            return "Requests from other pages are refused."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "Requests from other pages are refused."
        token = scope["path"].split("/")[1] if scope["path"].count("/") else ""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return "Open the address that `unspur review` printed: it ends with a token."
        if len(scope["path"]) > MOST_CHARACTERS:
            return "The address is too long. Reload the page."
        return self._unsafe(scope["method"], headers)

    def _unsafe(self, method: str, headers: dict[str, str]) -> str:
        """Return why a request that changes something is refused; it must be JSON, sent by this page."""
        if method in ("GET", "HEAD"):
            return ""
        if method != "POST" or "origin" not in headers:
            return "Requests from other pages are refused."
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            return "Requests must be JSON."
        length = headers.get("content-length", "")
        return "" if length.isdigit() and int(length) <= MOST_BYTES else "The request is too large."


def _with_headers(send: Send) -> Send:
    """Add the security headers to every response, unless the response sets them itself."""

    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message["headers"]}
            more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return send_with


async def _refuse(send: Send, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    kind = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await _with_headers(send)({"type": "http.response.start", "status": 403, "headers": kind})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, where: str) -> None:
    headers = [(b"location", where.encode()), (b"content-length", b"0")]
    await _with_headers(send)({"type": "http.response.start", "status": 307, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
