"""Who may open the viewer: requests to a real server."""

import asyncio
import urllib.error
import urllib.request

import pytest

from polytask.config.watching import PlayConfig
from polytask.errors import UserError
from polytask.viewer.guard import COOKIE, Guard
from polytask.web.access import link

viser = pytest.importorskip("viser", reason="the viewer needs viser")


def headers(**given):
    return {"Host": "localhost:8012", **given}


def test_a_local_viewer_answers_only_requests_to_this_machine():
    guard = Guard(is_local=True, token="")
    assert guard.refusal("/", headers()) is None
    assert guard.refusal("/", headers(Host="[::1]:8012")) is None
    assert guard.refusal("/", headers(Host="evil.example"))[0] == 421
    assert guard.refusal("/", headers(Host=""))[0] == 421


def test_pages_of_other_sites_are_refused():
    guard = Guard(is_local=True, token="")
    assert guard.refusal("/", headers(Origin="http://localhost:8012")) is None
    assert guard.refusal("/", headers(Origin="http://evil.example"))[0] == 403
    assert guard.refusal("/", headers(Origin="null"))[0] == 403


def test_a_viewer_that_others_can_reach_needs_the_token():
    guard = Guard(is_local=False, token="secret")
    assert guard.refusal("/", headers())[0] == 401
    assert guard.refusal("/?token=wrong", headers())[0] == 401
    assert guard.refusal("/?token=", headers())[0] == 401
    assert guard.refusal("/?token=secret", headers(Host="any:1")) is None
    assert guard.refusal("/", headers(Cookie=f"{COOKIE}=secret")) is None
    assert guard.refusal("/", headers(Cookie=f"{COOKIE}=wrong; other=secret"))[0] == 401


@pytest.fixture
def serve():
    """Start servers, and stop them at the end."""
    from polytask.viewer.server import close_server, guard_of, open_server

    servers = []

    def start(host):
        config = PlayConfig(policy="random", host=host, port=0)
        guard = guard_of(config)
        servers.append(open_server(config, guard))
        return guard, f"127.0.0.1:{servers[-1].get_port()}"

    yield start
    for server in servers:
        close_server(server)


def status(url, **given):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=given)) as answer:
            return answer.status, answer.headers.get("Set-Cookie")
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Set-Cookie")


def opens(url, **given):
    """Return whether a web socket opens and the server sends something."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    async def attempt():
        protocol = f"viser-v{viser.__version__}"
        async with connect(url, subprotocols=[protocol], additional_headers=given) as socket:
            return len(await asyncio.wait_for(socket.recv(), 10)) > 0

    try:
        return asyncio.run(attempt())
    except InvalidStatus:
        return False


def test_pages_and_sockets_of_a_server_need_the_token(serve):
    guard, place = serve("0.0.0.0")
    assert len(guard.token) >= 32
    assert status(f"http://{place}/") == (401, None)
    code, cookie = status(f"http://{place}/?token={guard.token}")
    assert code == 200
    assert cookie.startswith(f"{COOKIE}={guard.token}; HttpOnly; SameSite=Strict")
    assert not opens(f"ws://{place}/")
    assert not opens(f"ws://{place}/", Cookie=f"{COOKIE}=wrong")
    assert opens(f"ws://{place}/", Cookie=f"{COOKIE}={guard.token}")


def test_a_local_server_needs_none_but_refuses_other_sites(serve):
    guard, place = serve("127.0.0.1")
    assert guard.token == ""
    assert status(f"http://{place}/") == (200, None)
    assert status(f"http://{place}/", Host="evil.example")[0] == 421
    assert opens(f"ws://{place}/")
    assert not opens(f"ws://{place}/", Origin="http://evil.example")


def test_no_visitor_can_make_the_viewer_public(serve, capsys):
    from viser import _messages

    from polytask.viewer.server import close_server, guard_of, open_server

    config = PlayConfig(policy="random", port=0)
    server = open_server(config, guard_of(config))
    assert _messages.ShareUrlRequest not in server._websock_server._incoming_handlers
    close_server(server)
    assert capsys.readouterr().out == ""  # stdout is kept for the result


def test_a_viser_without_the_hook_is_refused(monkeypatch):
    from polytask.viewer import server as module

    monkeypatch.setattr(module, "import_module", lambda name: type("Other", (), {"serve": None}))
    config = PlayConfig(policy="random", port=0)
    with pytest.raises(UserError, match="does not let the viewer check requests"):
        module.open_server(config, module.guard_of(config))


def test_a_bad_host_is_one_clear_line(serve):
    with pytest.raises(UserError, match="cannot listen on host=no-such-host"):
        serve("no-such-host")


def test_the_link_contains_the_token():
    assert link("127.0.0.1", 8012, "") == "http://127.0.0.1:8012/"
    assert link("::1", 8012, "abc") == "http://[::1]:8012/?token=abc"
