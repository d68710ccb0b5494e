"""Starting the page: what is refused, what is printed, and that a real server answers."""

import pytest
from helpers.label_page import running

from polytask.errors import UserError
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.label import serve
from polytask.mtopt.label.client import UrlClient, get
from polytask.mtopt.label.server import address, listen, prepared


def test_a_missing_extra_is_one_line_that_names_it(monkeypatch, config):
    monkeypatch.setattr("polytask.mtopt.label.server.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'polytask\[label\]'"):
        serve(config)


def test_a_store_must_be_named_and_exist(tmp_path):
    with pytest.raises(UserError, match=r"there is no folder '.*typo'; name the folder .* run_dir=DIR"):
        serve(LabelConfig(run_dir=str(tmp_path / "typo")))
    assert not (tmp_path / "typo").exists()


def test_unknown_tasks_are_refused(config):
    config.tasks = ["lift-anything"]
    with pytest.raises(UserError, match="unknown task 'lift-anything'; did you mean 'lift-any'"):
        serve(config)


def test_a_page_open_to_others_gets_a_fresh_token(config):
    assert prepared(config).token == ""
    config.host = "0.0.0.0"
    first, second = prepared(config).token, prepared(config).token
    assert len(first) >= 32
    assert first != second
    config.token = "short"
    with pytest.raises(UserError, match="at least 16"):
        prepared(config)


def test_address_holds_the_token():
    assert address(LabelConfig(), 8008) == "http://127.0.0.1:8008/"
    assert address(LabelConfig(host="::1"), 9) == "http://[::1]:9/"
    assert address(LabelConfig(host="10.0.0.5", token="t" * 16), 8008) == f"http://10.0.0.5:8008/?token={'t' * 16}"


def test_a_taken_port_is_one_line(config):
    with listen(LabelConfig(port=0)) as taken:
        taken.listen()
        config.port = taken.getsockname()[1]
        with pytest.raises(
            UserError, match=f"cannot listen on host=127.0.0.1 port={config.port}: Address already in use"
        ):
            listen(config)


def test_a_real_server_answers_and_asks_for_its_token(config):
    config.token = "t" * 16
    with running(config) as url:
        assert len(get(UrlClient(url), "/api/state")["tasks"]) == 3
        with pytest.raises(UserError, match="401"):
            get(UrlClient(url.partition("?")[0]), "/api/state")
    with pytest.raises(UserError, match="no labelling page answers"):
        get(UrlClient(url), "/api/state")
