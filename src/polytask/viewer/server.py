"""Open a viser server whose every request passes the guard."""

from __future__ import annotations

import contextlib
import io
import secrets
import socket
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from polytask.config.watching import PlayConfig
from polytask.errors import UserError, shown
from polytask.viewer.guard import Guard
from polytask.web.access import is_loopback

if TYPE_CHECKING:
    import viser


def guard_of(config: PlayConfig) -> Guard:
    """Return the guard of a host; a host that others can reach gets a random token."""
    is_local = is_loopback(config.host)
    return Guard(is_local, "" if is_local else secrets.token_urlsafe(24))


def open_server(config: PlayConfig, guard: Guard) -> viser.ViserServer:
    """Start the web server in a thread of its own. If the port is taken, it uses the next free one.

    Raises:
        UserError: If viser is not installed, the host is not valid, or the guard cannot be put in place.
    """
    if find_spec("viser") is None:
        raise UserError("the viewer needs an extra: pip install 'polytask[viewer]'")
    import viser
    from viser import _messages

    _check_host(config.host)
    with _guarded(guard) as is_guarded, contextlib.redirect_stdout(io.StringIO()):  # viser prints a panel
        server = viser.ViserServer(host=config.host, port=config.port, label="polytask", verbose=False)
    # A click of any visitor would make the viewer public through a server of others.
    server._websock_server.unregister_handler(_messages.ShareUrlRequest)
    if not is_guarded:
        close_server(server)
        raise UserError(f"viser {viser.__version__} does not let the viewer check requests; install viser 1.1")
    return server


def close_server(server: viser.ViserServer) -> None:
    """Stop the web server."""
    with contextlib.redirect_stdout(io.StringIO()):  # viser says that it stopped
        server.stop()


def _check_host(host: str) -> None:
    """Check that this machine can listen at an address: viser would try a thousand ports and then hang."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError) as error:  # ValueError: a host that cannot be a name
        reason = error.strerror if isinstance(error, OSError) else "it is not the name or address of a machine"
        raise UserError(f"cannot listen on host={shown(host)}: {reason}") from error


@contextlib.contextmanager
def _guarded(guard: Guard) -> Iterator[list[bool]]:
    """Put the guard before the requests of a server that is started inside the block.

    Viser has no hook for this, but it starts its server with a function of `websockets` that has one. The list that
    this yields is empty if viser did not use that function.
    """
    websockets: Any = import_module("websockets.asyncio.server")
    serve, used = websockets.serve, list[bool]()

    def guarded_serve(*arguments: Any, process_request: Any = None, **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            refused = guard.refusal(request.path, request.headers)
            if refused is not None:
                return connection.respond(HTTPStatus(refused[0]), refused[1] + "\n")
            response = process_request(connection, request) if process_request else None
            if response is not None and (cookie := guard.cookie()):
                response.headers["Set-Cookie"] = cookie
            return response

        used.append(True)
        return serve(*arguments, process_request=check, **options)

    websockets.serve = guarded_serve
    try:
        yield used
    finally:
        websockets.serve = serve
