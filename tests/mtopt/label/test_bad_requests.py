"""Whatever a program sends, the page answers with a reason and never fails."""

import json

import pytest
from helpers.label_page import TASKS

VALUES = [
    *(b"null", b"true", b"0", b"-1", b"1.5", b"1e400", b"NaN", b"Infinity", b"-Infinity", b'""', b'"text"'),
    *(b"[]", b"{}", b"[null]", b"[[]]", b'{"a": NaN}', b"9" * 30, b"9" * 5000, b"[" * 5000 + b"]" * 5000),
    *(
        b'{"":' * 2000 + b"1" + b"}" * 2000,
        b'"\\ud800"',
        b'"\\u0000"',
        b'"' + b"x" * 100_000 + b'"',
        b'"\xff"',
        b"",
        b"{",
    ),
]
GOOD = {
    "/api/answers": {"answers": [{"task": "lift-any", "episode": 1, "value": True, "order": "new"}]},
    "/api/undo": {"task": "lift-any"},
}


def places(value, path=()):
    """List the paths to all parts of a value, from the whole to the smallest."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, part in parts for place in places(part, (*path, name)))]


def replaced(value, path, mark):
    if not path:
        return mark
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], mark)
    return copy


def bodies(good):
    """Replace every part of a good body by every bad value, leave every part out, and add a key."""
    for path in places(good):
        before, after = json.dumps(replaced(good, path, "MARK")).encode().split(b'"MARK"')
        yield from (before + value + after for value in VALUES)
        if path and isinstance(path[-1], str):
            parent = good
            for name in path[:-1]:
                parent = parent[name]
            without = {name: part for name, part in parent.items() if name != path[-1]}
            yield json.dumps(replaced(good, path[:-1], without)).encode()
    yield json.dumps({**good, "more\ud800": 1}).encode()


def assert_answered(reply, what):
    assert reply.status < 500, (what[:200], reply.status)
    if reply.status >= 400:
        detail = reply.json()["detail"]
        assert isinstance(detail, str) and 0 < len(detail) < 1000, what[:200]


@pytest.mark.parametrize("path", GOOD)
def test_a_body_that_is_not_valid_gets_a_reason(page, store, path):
    refused = 0
    for body in bodies(GOOD[path]):
        reply = page.post(path, body)
        assert_answered(reply, body)
        refused += reply.status >= 400
    assert refused > 50
    assert {label.task for label in store.labels()} <= set(TASKS)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_numbers_that_json_does_not_have_are_refused_by_name(page, number):
    reply = page.post("/api/answers", b'{"answers": ' + number + b"}")
    assert (reply.status, reply.json()["detail"]) == (422, "body.answers: Input should be a valid list")
    reply = page.post("/api/answers", b'{"answers": [{"task": "lift-any", "episode": ' + number + b', "value": true}]}')
    assert reply.status == 422
    assert reply.json()["detail"].startswith("body.answers.0.episode: Input should be a ")


@pytest.mark.parametrize(
    "value", ["", "-1", "0", "1.5", "NaN", "inf", "9" * 30, "9" * 5000, "%00", "%ff", "x" * 5000, "null"]
)
def test_a_value_in_the_address_that_is_not_valid_gets_a_reason(page, value):
    for path in (
        f"/api/tasks/{value}/questions",
        f"/api/tasks/{value}/examples",
        f"/api/tasks/lift-any/questions?count={value}",
        f"/api/tasks/lift-any/questions?order={value}",
        f"/api/episodes/{value}/outcome.png",
    ):
        assert_answered(page.get(path), path)
    for query in (f"task={value}&value=true", f"task=lift-any&value={value}", f"value={value}", f"task={value}"):
        reply = page.request("POST", f"/api/uploads?{query}", b"no picture", {"content-type": "image/png"})
        assert_answered(reply, query)
        assert reply.status >= 400


@pytest.mark.parametrize("length", ["", "x", "-1", "1.5", "9" * 30, "9" * 5000])
def test_a_length_that_is_not_valid_is_refused(page, length):
    reply = page.post("/api/undo", b"{}", **{"content-length": length})
    assert reply.status in (411, 413)
