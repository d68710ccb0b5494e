"""Access control of the page. The checks run before every route, so that no route can forget them.

- On a loopback address: no token, but the Host header must name this machine. So a foreign site whose name resolves to
  127.0.0.1 reaches nothing (DNS rebinding).
- On any other address: a token, as cookie or header, compared in constant time.
- The API refuses requests of a browser from another site's page, by their Origin or Sec-Fetch-Site header.
- Bodies need a declared length below a limit, and a type that no plain HTML form can send.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from polytask.web.access import is_own_page, is_to_this_machine, knows_token

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "polytask-label"
BODY_TYPES = ("application/json", "image/png", "image/jpeg", "image/webp")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class Access:
    """What a request needs to be accepted."""

    local: bool  # the page listens on a loopback address: the Host header is checked
    token: str  # empty: none is needed
    max_body: int  # bytes


def refusal(method: str, path: str, headers: Mapping[str, str], query: str, access: Access) -> tuple[int, str] | None:
    """Return the status and the reason why a request is refused; None accepts it. Header names are lower case."""
    host = headers.get("host", "")
    if access.local and not is_to_this_machine(host):
        return 421, "this page answers only requests to localhost"
    if path.startswith("/api/") and not _is_same_site(headers, host):
        return 403, "requests from other sites are refused"
    if access.token and not _has_token(headers, query if path == "/" else "", access.token):
        return 401, "open the address that was printed at the start; it contains the token"
    return _bad_body(headers, access) if method not in ("GET", "HEAD") else None


def _is_same_site(headers: Mapping[str, str], host: str) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    return is_own_page(headers.get("origin"), host)


def _has_token(headers: Mapping[str, str], query: str, token: str) -> bool:
    offered = [headers.get("x-polytask-token", ""), *parse_qs(query).get("token", [])]
    return knows_token(token, offered, headers.get("cookie", ""), COOKIE)


def _bad_body(headers: Mapping[str, str], access: Access) -> tuple[int, str] | None:
    length = headers.get("content-length", "")
    if not length.isdecimal():
        return 411, "a request with a body must state its length"
    if len(length) > 18 or int(length) > access.max_body:  # Python refuses to read thousands of digits
        return 413, f"at most {access.max_body:,} bytes are allowed"
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in BODY_TYPES:
        return 415, f"the body must be one of: {', '.join(BODY_TYPES)}"
    return None


class Guard:
    """ASGI middleware: refuses requests by `refusal` and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        refused = refusal(scope["method"], scope["path"], headers, query, self.access)
        if refused is None:
            await self.app(scope, receive, send_guarded)
            return
        body = json.dumps({"detail": refused[1]}).encode()
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send_guarded({"type": "http.response.start", "status": refused[0], "headers": start})
        await send_guarded({"type": "http.response.body", "body": body})
