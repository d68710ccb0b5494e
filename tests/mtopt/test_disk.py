"""A full disk and a folder that cannot be written: one line, the old files whole, nothing left behind."""

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys

import pytest
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.records import Label
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore


def limited(size):
    """Return what a child does first: no file may grow beyond `size` bytes, as on a full disk."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("size", [pytest.param(0, marks=pytest.mark.slow), 300_000])
def test_a_full_disk_is_one_line_and_the_run_continues_later(run_copy, size):
    files = {path: path.read_bytes() for path in run_copy.rglob("*.pt")}
    words = [sys.executable, "-m", "polytask", "mtopt", "run", f"run_dir={run_copy}", "controller.rounds=2"]
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limited(size))
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert last.startswith("polytask: cannot write '") and "Traceback" not in done.stderr
    assert not list(run_copy.rglob("*.part"))
    assert all(path.read_bytes() == content for path, content in files.items() if path.exists())
    assert RunFolder(run_copy).require()["jobs"] >= 14
    assert subprocess.run(words, capture_output=True).returncode == 0, "with space again"


@pytest.mark.parametrize(
    "name", ["lock", "run.json", "metrics.jsonl", "index.sqlite", "index.lock", "weights", "shards"]
)
def test_a_file_where_a_folder_should_be_or_the_other_way_is_one_line(call, run_copy, name):
    path = run_copy / name
    aside = run_copy.parent / "aside"
    if path.exists():
        path.rename(aside)
    if aside.is_dir():
        path.write_text("")
    else:
        path.mkdir()
    code, out, err = call("mtopt", "run", f"run_dir={run_copy}", "controller.rounds=2")
    if name == "index.sqlite":
        assert "rebuilt from the shards" in err
        return
    last = err.splitlines()[-1]
    assert (code, out) == (2, "")
    assert last.startswith("polytask: ") and name in last


@pytest.mark.parametrize("text", ["database or disk is full", "disk I/O error", "attempt to write a readonly database"])
def test_an_error_of_the_index_names_the_file(tmp_path, text):
    store = EpisodeStore(tmp_path)
    codes = {"full": sqlite3.SQLITE_FULL, "error": sqlite3.SQLITE_IOERR_WRITE, "database": sqlite3.SQLITE_READONLY}

    class Refusing:
        in_transaction = False

        def execute(self, *words):
            error = sqlite3.OperationalError(text)
            error.sqlite_errorcode = codes[text.split()[-1]]
            raise error

    store._index._connection = Refusing()
    with pytest.raises(UserError, match=f"^cannot write '{tmp_path}/index.sqlite': {text}$"):
        store.add_labels([Label(1, "lift-any", 1.0, "person")])
    store.close()


def test_no_space_for_the_state_leaves_the_old_one(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.begin(tiny(tmp_path))
    before = (tmp_path / "run.json").read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"cannot write '.*run.json': No space left on device"):
            folder.update({})
    assert (tmp_path / "run.json").read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))
    folder.close()
