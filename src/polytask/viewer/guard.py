"""Who may open the viewer: the checks that come before every request, pages and web sockets alike.

- On a loopback address: the Host header must name this machine. So a foreign site whose name resolves to 127.0.0.1
  reaches nothing (DNS rebinding).
- On any other address: a token, in the link or as the cookie that the first answer sets, compared in constant time.
- A web socket from a page of another site is refused by its Origin header; browsers do not do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from polytask.web.access import is_own_page, is_to_this_machine, knows_token

COOKIE = "polytask-play"


@dataclass(frozen=True)
class Guard:
    """What a request needs to be accepted.

    Attributes:
        is_local: The viewer listens on a loopback address: the Host header is checked.
        token: What a request must know; empty: nothing.
    """

    is_local: bool
    token: str

    def refusal(self, target: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason why a request is refused; None accepts it.

        Args:
            target: Path and query of the request.
            headers: Its headers; look-ups must not depend on upper and lower case.
        """
        host = headers.get("Host", "")
        if self.is_local and not is_to_this_machine(host):
            return 421, "this viewer answers only requests to localhost"
        if not is_own_page(headers.get("Origin"), host):
            return 403, "requests from other sites are refused"
        if self.token and not self._knows_token(target, headers):
            return 401, "open the link that was printed at the start; it contains the token"
        return None

    def cookie(self) -> str | None:
        """Return the cookie that an accepted browser gets, for its next requests."""
        return f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/" if self.token else None

    def _knows_token(self, target: str, headers: Mapping[str, str]) -> bool:
        words = parse_qs(target.partition("?")[2]).get("token", [])
        return knows_token(self.token, words, headers.get("Cookie", ""), COOKIE)
