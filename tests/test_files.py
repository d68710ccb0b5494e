"""Files: a write is complete or has no effect, and an unreadable file is a one-line error."""

import json
import math
from pathlib import Path

import pytest
import torch

from polytask.errors import UserError
from polytask.files import (
    JsonLines,
    finite,
    load_tensors,
    make_folder,
    read_json_lines,
    save_tensors,
    write_atomically,
    write_text,
)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(temporary):
        temporary.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


def test_tensors_come_back_and_the_header_is_checked(tmp_path):
    path = tmp_path / "a.pt"
    save_tensors(path, {"kind": "thing", "format": 2, "x": torch.arange(3)})
    assert load_tensors(path, "thing", kind="thing", format=2)["x"].tolist() == [0, 1, 2]
    for header, line in (
        ({"format": 3}, "is not a thing (format 3)"),
        ({"kind": "other"}, "is not a thing (kind other)"),
    ):
        with pytest.raises(UserError) as caught:
            load_tensors(path, "thing", **header)
        assert line in str(caught.value)


def test_files_that_hold_no_tensors_are_one_line(tmp_path):
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04 not much")
    for name, line in (("nowhere.pt", "no thing at"), ("cut.pt", "it is truncated or not a thing")):
        with pytest.raises(UserError, match=line) as caught:
            load_tensors(tmp_path / name, "thing")
        assert "\n" not in str(caught.value)


def test_rows_survive_and_a_torn_line_ends_them(tmp_path):
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, [{"iteration": 1, "loss": 0.5}])
    log.write({"iteration": 2, "loss": math.nan})
    assert read_json_lines(path) == [{"iteration": 1, "loss": 0.5}, {"iteration": 2, "loss": None}]
    log.close()
    path.write_text(path.read_text() + '{"iteration": 3, "lo')
    assert [row["iteration"] for row in read_json_lines(path)] == [1, 2]
    assert [row["iteration"] for row in read_json_lines(path, until=1)] == [1]
    assert read_json_lines(tmp_path / "nowhere") == []


def test_what_json_does_not_have_becomes_null():
    value = {"a": [1.0, math.inf, (2, -math.inf)], "b": "text"}
    assert json.dumps(finite(value)) == '{"a": [1.0, null, [2, null]], "b": "text"}'


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(UserError, match="cannot make the folder '/dev/null/x'"):
        make_folder(Path("/dev/null/x"))
