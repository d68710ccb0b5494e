"""Files: a write is complete or has no effect, and an unreadable file is a one-line error."""

import errno
import io
import json
import math
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from polytask.errors import UserError
from polytask.files import (
    JsonLines,
    check_fields,
    check_finite,
    finite,
    load_tensors,
    make_folder,
    parse_json,
    read_json,
    read_json_lines,
    remove_stale_parts,
    restore,
    save_tensors,
    write_atomically,
    write_text,
)

# Writing


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(temporary):
        assert str(os.getpid()) in temporary.name  # so that two processes do not share it
        temporary.write_text("half")
        raise error

    with pytest.raises(error):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    write_text(path, "new")
    assert path.read_text() == "new"


@contextmanager
def full_disk(size):
    """Let the operating system refuse to write more than `size` bytes into a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 100, 5_000, 300_000])
def test_a_full_disk_is_one_line_and_leaves_the_old_files(tmp_path, size):
    tensors, text, log = tmp_path / "a.pt", tmp_path / "a.txt", tmp_path / "a.jsonl"
    state = {"x": torch.zeros(50_000), "y": torch.ones(50_000)}
    save_tensors(tensors, {"old": 1})
    write_text(text, "old")
    rows = JsonLines(log, [])
    with full_disk(size):
        for path, write in (
            (tensors, lambda: save_tensors(tensors, state)),
            (text, lambda: write_text(text, "x" * 400_000)),
            (log, lambda: rows.write({"x" * 400_000: 1})),
        ):
            with pytest.raises(UserError) as caught:
                write()
            assert str(caught.value) == f"cannot write '{path}': {os.strerror(errno.EFBIG)}"
    rows.close()
    assert load_tensors(tensors, "file") == {"old": 1}
    assert text.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "a.pt", "a.txt"]


@pytest.mark.parametrize("path", [Path("/"), Path("nowhere/a"), Path("/dev/null/a")])
def test_a_path_that_cannot_be_written_is_one_line(path):
    with pytest.raises(UserError, match=f"^cannot write '{path}': "):
        write_text(path, "")


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="is not a regular file"):
        write_text(pipe, "text")
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_temporary_files_of_dead_processes_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [f".a.pt.{os.getpid()}.part", ".a.pt.1.part", ".part", "a.part", "a.pt"]
    for name in (*kept, f".a.pt.{dead.pid}.part", ".a.pt.part", ".run.json.999999999.part"):
        (tmp_path / name).touch()
    remove_stale_parts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(kept)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(UserError, match="cannot make the folder '/dev/null/x'"):
        make_folder(Path("/dev/null/x"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(UserError, match="cannot write into the folder"):
        make_folder(tmp_path / "a")


# Tensors

STATE = {"kind": "thing", "format": 2, "x": torch.arange(3.0), "rest": {"y": [1, (2.5, "z", None)]}}


@pytest.fixture
def saved(tmp_path):
    save_tensors(tmp_path / "a.pt", STATE)
    return tmp_path / "a.pt"


def refusal(path):
    """Return the line with which a file is refused."""
    with pytest.raises(UserError) as caught:
        load_tensors(path, "thing", format=2)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_tensors_come_back_and_the_header_is_checked(saved):
    state = load_tensors(saved, "thing", kind="thing", format=2)
    assert state.pop("x").tolist() == [0, 1, 2]
    assert state == {name: value for name, value in STATE.items() if name != "x"}
    for header, line in (
        ({"format": 3}, "is not a thing (format 3)"),
        ({"kind": "other"}, "is not a thing (kind other)"),
        ({"x": 0}, "is not a thing (x 0)"),
    ):
        with pytest.raises(UserError) as caught:
            load_tensors(saved, "thing", **header)
        assert line in str(caught.value)


def test_every_flipped_byte_is_noticed(saved):
    content = saved.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        saved.write_bytes(damaged)
        assert "is damaged: its checksum does not match" in refusal(saved), place


def test_every_truncation_is_noticed(saved):
    content = saved.read_bytes()
    for size in range(len(content)):
        saved.write_bytes(content[:size])
        assert "checksum" in refusal(saved) or "truncated or not a thing" in refusal(saved), size
    saved.write_bytes(content + b"x")
    refusal(saved)


def test_a_file_without_checksum_is_read_and_its_records_are_checked(tmp_path):
    path = tmp_path / "old.pt"
    torch.save(STATE, path)  # as version 0.1 wrote it
    assert load_tensors(path, "thing", format=2)["x"].tolist() == [0, 1, 2]
    content = path.read_bytes()
    numbers = STATE["x"].numpy().tobytes()
    path.write_bytes(content.replace(numbers, bytes(len(numbers))))
    assert "is damaged: its checksum does not match" in refusal(path)


def other_archive():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "hello")
    return file.getvalue()


OTHER_KINDS = {
    "empty": b"",
    "text": b"hello",
    "start of an archive": b"PK\x03\x04 not much",
    "zeros": b"\0" * 1000,
    "another archive": other_archive(),
    "a pickled list": pickle.dumps([1]),
    "a pickled dict": pickle.dumps({"format": 2}),
}


# With names of their own: an archive contains the time, so parallel test processes would name its bytes differently.
@pytest.mark.parametrize("content", OTHER_KINDS.values(), ids=OTHER_KINDS.keys())
def test_a_file_of_another_kind_is_one_line(tmp_path, content):
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    assert refusal(path) == f"'{path}' cannot be read: it is truncated or not a thing"


def test_a_missing_file_and_a_folder_are_one_line(tmp_path):
    assert refusal(tmp_path / "nowhere.pt") == f"no thing at '{tmp_path / 'nowhere.pt'}'"
    assert refusal(tmp_path) == f"cannot read '{tmp_path}': Is a directory"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("obs_norm"), "field 'obs_norm' is missing"),
        (AttributeError("no attribute 'shape'"), "no attribute 'shape'"),
        (RuntimeError("Errors in loading:\n\tsize mismatch\n\tmore"), "size mismatch"),
        (TypeError(), "TypeError"),
    ],
)
def test_a_state_that_does_not_fit_is_one_line(error, reason):
    class Part:
        def load_state_dict(self, state):
            raise error

    with pytest.raises(UserError) as caught:
        restore(Part(), {}, "net")
    assert str(caught.value) == f"the checkpoint does not fit: its net has another shape ({reason})"


# Fields


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({}, "field 'size' is missing"),
        ({"size": "2"}, "field 'size' must be a whole number, not text"),
        ({"size": True}, "field 'size' must be a whole number, not true or false"),
        ({"size": 2, "part": []}, "field 'part' must be a table, not a list"),
        ({"size": 2, "part": {}}, "field 'part.rate' is missing"),
        ({"size": 2, "part": {"rate": 1}, "names": {}}, "field 'names' must be a list, not a table"),
        ({"size": 2, "part": {"rate": 1}, "names": ["a", 2]}, "field 'names.1' must be text, not a whole number"),
        ({"size": 2, "part": {"rate": None}}, "field 'part.rate' must be a number, not empty"),
        (
            {"size": 2, "part": {"rate": 1}, "names": (), "note": 3},
            "field 'note' must be text or empty, not a whole number",
        ),
    ],
)
def test_a_wrong_field_is_named(state, line):
    with pytest.raises(UserError) as caught:
        check_fields(state, {"size": int, "part": {"rate": float}, "names": [str], "note": str | None}, Path("a.pt"))
    assert str(caught.value) == f"'a.pt' is damaged: {line}"


def test_a_field_that_may_be_empty_may_be_missing():
    check_fields({"size": 2, "rate": 1}, {"size": int, "rate": float, "note": str | None}, Path("a.pt"))


@pytest.mark.parametrize("content", [b"", b"[1]", b"5", b'{"a": ', b"\xff\xfe", b"[" * 100_000, b"9" * 5_000])
def test_a_file_that_is_not_a_json_object_is_one_line(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read: it is not a summary in JSON"):
        read_json(path, "summary", {})


def test_a_json_object_comes_back_and_its_fields_are_checked(tmp_path):
    path = tmp_path / "a.json"
    write_text(path, '{"a": 1}')
    assert read_json(path, "summary", {"a": int}) == {"a": 1}
    with pytest.raises(UserError, match="field 'b' is missing"):
        read_json(path, "summary", {"b": int})
    with pytest.raises(UserError, match="no summary at"):
        read_json(tmp_path / "nowhere.json", "summary", {})


# Logs


def test_rows_survive_and_come_back(tmp_path):
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, [{"iteration": 1, "loss": 0.5}])
    log.write({"iteration": 2, "loss": math.nan})
    assert read_json_lines(path) == [{"iteration": 1, "loss": 0.5}, {"iteration": 2, "loss": None}]
    log.close()
    assert [row["iteration"] for row in read_json_lines(path, until=1)] == [1]
    assert read_json_lines(tmp_path / "nowhere") == []


NOT_ROWS = [
    b'{"iteration": 2, "lo',
    b'"iteration": 2}',
    b"5",
    b"[]",
    b"null",
    b"{}",
    b'{"frames": 2}',
    b'{"iteration": "2"}',
    b'{"iteration": 2.5}',
    b'{"iteration": 2, "loss": "high"}',
    b'{"iteration": 2, "loss": NaN}',
    b'{"iteration": 2, "loss": 1e999}',
    b'{"iteration": 2, "loss": 1' + b"0" * 400 + b"}",
    b'{"iteration": 1' + b"0" * 5_000 + b"}",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"",
]


@pytest.mark.parametrize("line", NOT_ROWS)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_damaged_line_is_skipped_and_counted(tmp_path, capsys, line, place):
    path = tmp_path / "log.jsonl"
    lines = [b'{"iteration": %d}' % number for number in (1, 2, 3)]
    path.write_bytes(b"".join(each + b"\n" for each in (*lines[:place], line, *lines[place:])))
    assert [row["iteration"] for row in read_json_lines(path, is_numeric=True)] == [1, 2, 3]
    assert capsys.readouterr().err == f"'{path}': 1 of 4 lines cannot be read; they are skipped\n"
    assert [row["iteration"] for row in read_json_lines(path, until=2, is_numeric=True)] == [1, 2]


def test_a_row_may_contain_text(tmp_path):
    path = tmp_path / "log.jsonl"
    write_text(path, '{"iteration": 1, "kind": "train"}\n')
    assert read_json_lines(path) == [{"iteration": 1, "kind": "train"}]


def test_a_folder_in_place_of_a_log_is_one_line(tmp_path):
    with pytest.raises(UserError, match="Is a directory"):
        read_json_lines(tmp_path)


def test_what_json_does_not_have_becomes_null():
    value = {"a": [1.0, math.inf, (2, -math.inf)], "b": "text"}
    assert json.dumps(finite(value)) == '{"a": [1.0, null, [2, null]], "b": "text"}'


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_tensor_that_is_not_finite_is_named(bad):
    state = {"a": [torch.ones(2), {"b": torch.tensor([1.0, bad])}], "c": math.nan, "d": torch.tensor([3])}
    with pytest.raises(UserError, match=r"'x.pt' holds non-finite weights \(net.a.1.b\)"):
        check_finite(state, Path("x.pt"), "net.")
    state["a"].pop()
    check_finite(state, Path("x.pt"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ('"ä"'.encode(), "ä"),
        ('"ä"'.encode("utf-16"), None),  # a log is UTF-8
        (b'{"a": 1', None),  # the process was killed while it wrote the line
        ("[" * 100_000, None),
    ],
)
def test_text_that_is_not_json_is_none(text, value):
    assert parse_json(text) == value
