"""The parts of access control: loopback addresses, tokens, and requests from other sites."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return whether an address or name means this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_to_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine; a foreign name that resolves to 127.0.0.1 does not."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def is_own_page(origin: str | None, host: str) -> bool:
    """Return whether an Origin header is that of the server's own pages; programs send none."""
    return origin is None or origin in (f"http://{host}", f"https://{host}")


def knows_token(token: str, words: Iterable[str], cookies: str, name: str) -> bool:
    """Return whether a request offers the token, compared in constant time.

    Args:
        token: The token.
        words: What the request offers outside its cookies.
        cookies: Its Cookie header.
        name: Name of the cookie that may contain the token.
    """
    try:
        cookie = SimpleCookie(cookies).get(name)
    except CookieError:
        cookie = None
    offered = [*words, *([cookie.value] if cookie else [])]
    return any(hmac.compare_digest(word.encode(), token.encode()) for word in offered)


def link(host: str, port: int, token: str) -> str:
    """Return the address for a browser, including the token."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
