"""Which requests are accepted."""

import pytest
from helpers.label_page import TASKS, Page

from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label.app import STATIC, create_app
from polytask.mtopt.label.security import Access, refusal
from polytask.web.access import is_loopback

TOKEN = "correct-horse-battery"
LOCAL = Access(local=True, token="", max_body=1000)
OPEN = Access(local=False, token=TOKEN, max_body=1000)
JSON = {"content-type": "application/json", "content-length": "2"}


def status(access, method="GET", path="/api/state", query="", **headers):
    given = {"host": "localhost:8008"} | {name.replace("_", "-"): value for name, value in headers.items()}
    refused = refusal(method, path, given, query, access)
    return 200 if refused is None else refused[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.3.2.1"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "", "localhost.example.org"])
def test_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "localhost:8008", "127.0.0.1:9", "[::1]:8008"])
def test_local_page_answers_to_its_own_names(host):
    assert status(LOCAL, host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8008", "", "[", "localhost@evil.example", "127.0.0.1.nip.io"]
)
@pytest.mark.parametrize("path", ["/", "/api/state", "/label.js"])
def test_local_page_refuses_rebound_names(host, path):
    assert status(LOCAL, path=path, host=host) == 421


def test_token_is_needed_everywhere_when_the_page_is_open():
    for path in ("/", "/label.js", "/api/state"):
        assert status(OPEN, path=path) == 401
        assert status(OPEN, path=path, x_polytask_token=TOKEN[:-1]) == 401
        assert status(OPEN, path=path, x_polytask_token=TOKEN) == 200
        assert status(OPEN, path=path, cookie=f"a=b; polytask-label={TOKEN}") == 200
        assert status(OPEN, path=path, cookie="polytask-label=") == 401
    assert status(OPEN, path="/", query=f"token={TOKEN}") == 200
    assert status(OPEN, path="/", query="token=") == 401
    assert status(OPEN, path="/api/state", query=f"token={TOKEN}") == 401  # addresses end up in logs: only the page's


def test_other_sites_are_refused_on_the_api():
    assert status(LOCAL, origin="http://localhost:8008") == 200
    assert status(LOCAL, origin="http://localhost:9999") == 403
    assert status(LOCAL, origin="http://evil.example") == 403
    assert status(LOCAL, origin="null") == 403
    assert status(LOCAL, sec_fetch_site="cross-site") == 403
    assert status(LOCAL, sec_fetch_site="same-site") == 403
    assert status(LOCAL, sec_fetch_site="same-origin") == 200
    assert status(LOCAL, "POST", sec_fetch_site="same-origin", origin="http://evil.example", **JSON) == 403


def test_bodies_need_a_length_and_a_type_that_no_form_sends():
    assert status(LOCAL, "POST", **JSON) == 200
    assert status(LOCAL, "POST", content_type="application/json") == 411
    assert status(LOCAL, "POST", content_type="application/json", content_length="-1") == 411
    assert status(LOCAL, "POST", content_type="application/json", content_length="1001") == 413
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert status(LOCAL, "POST", content_type=kind, content_length="2") == 415
    assert status(LOCAL, "POST", content_type="Image/PNG; q=1", content_length="2") == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "robot.example"])
def test_a_page_that_others_can_reach_is_not_made_without_a_token(tmp_path, host):
    with pytest.raises(UserError, match=f"host={host} opens the labelling page to other machines: set token="):
        create_app(LabelConfig(run_dir=str(tmp_path / "store"), host=host), TASKS)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def open_page(store):
    config = LabelConfig(run_dir=str(store.root), host="0.0.0.0", token=TOKEN)
    return Page(create_app(config, TASKS, store), host="robot.example:8008")


def test_opening_the_printed_address_gives_a_cookie_that_opens_the_rest(open_page):
    assert open_page.get("/").status == 401
    assert open_page.get("/api/state").status == 401
    reply = open_page.get(f"/?token={TOKEN}")
    assert reply.status == 200
    cookie = reply.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=lax" in cookie.lower()
    assert open_page.get("/api/state", cookie=cookie.partition(";")[0]).status == 200


def test_every_answer_carries_the_security_headers(page):
    for reply in (page.get("/"), page.get("/api/state"), page.get("/nothing"), page.get("/", host="evil.example")):
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert not any(name.startswith("access-control") for name in reply.headers)


@pytest.mark.parametrize(
    "path",
    [
        *("/../app.py", "/static/label.js", "/label.css/..", "/%2e%2e/app.py", "/etc/passwd", "/docs", "/openapi.json"),
        *("/api/episodes/../outcome.png", "/api/episodes/..%2f1/outcome.png", "/api/tasks/..%2f/examples"),
    ],
)
def test_nothing_but_the_table_of_files_is_served(page, path):
    assert page.get(path).status in (404, 422)


@pytest.mark.parametrize("path", STATIC)
def test_the_page_works_offline(page, path):
    reply = page.get(path)
    assert reply.status == 200
    text = reply.body.decode().replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in text
    assert "https://" not in text
    assert "//cdn" not in text


@pytest.mark.parametrize("number", ["-1", "1.5", "abc", "9" * 30, "0x1", "1%00", "99999"])
def test_episode_numbers_are_numbers_that_exist(page, number):
    assert page.get(f"/api/episodes/{number}/outcome.png").status in (404, 422)
