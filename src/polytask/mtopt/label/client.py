"""Call the labelling page's API from a program: over the network, or on a server object in the same process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

from polytask.errors import UserError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

TIMEOUT = 60.0  # s


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)


class Client(Protocol):
    """Anything that sends a request to the page."""

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request and return the answer, whatever its status."""
        ...


class UrlClient:
    """Calls a page in another process, by the address that it printed, including the token."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        token = parse_qs(parts.query).get("token", [])
        self.headers = {"x-polytask-token": token[0]} if token else {}
        self.opener = build_opener(ProxyHandler({}))  # no proxy, which would read the token

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request over the network."""
        request = Request(self.base + path, body, {**self.headers, **(headers or {})}, method=method)
        try:
            with self.opener.open(request, timeout=TIMEOUT) as answer:
                return Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
        except HTTPError as error:
            with error:
                return Reply(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())
        except URLError as error:
            raise UserError(f"no labelling page answers at {self.base}: {error.reason}") from error


class InProcessClient:
    """Calls a server object directly: no port, no thread, the same checks."""

    def __init__(self, app: ASGIApp, host: str = "localhost") -> None:
        self.app = app
        self.host = host

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request through the server's interface."""
        parts = urlsplit(path)
        given = {"host": self.host} | ({} if body is None else {"content-length": str(len(body))}) | dict(headers or {})
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
        }
        return asyncio.run(self._call(scope, body or b""))

    async def _call(self, scope: dict[str, Any], body: bytes) -> Reply:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(dict(message))

        await self.app(scope, receive, send)
        start = next(message for message in sent if message["type"] == "http.response.start")
        content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Reply(start["status"], headers, content)


def get(client: Client, path: str) -> Any:
    """Read from the page's API.

    Raises:
        UserError: If the page refuses.
    """
    return _checked(client.request("GET", path))


def post(client: Client, path: str, body: Any) -> Any:
    """Send to the page's API.

    Raises:
        UserError: If the page refuses.
    """
    data = json.dumps(body).encode()
    return _checked(client.request("POST", path, data, {"content-type": "application/json"}))


def _checked(reply: Reply) -> Any:
    if reply.status >= 400:
        raise UserError(f"the labelling page answered {reply.status}: {reply.body.decode(errors='replace')}")
    return reply.json()
