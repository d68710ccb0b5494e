"""The lock of a run: one holder, named to the second process, and released by the holder's death."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from polytask.errors import UserError
from polytask.files.folder_lock import BusyError, FolderLock

HOLDER = """
import subprocess, sys
from pathlib import Path
from polytask.files.folder_lock import FolderLock
FolderLock(Path(sys.argv[1])).take()
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""


def test_one_at_a_time(tmp_path):
    root = tmp_path / "run"
    first, second = FolderLock(root), FolderLock(root)
    first.take()
    first.take()  # it has the lock already
    with pytest.raises(BusyError, match=f"^the run in '{root}' is in use by process {os.getpid()}; "):
        second.take()
    assert issubclass(BusyError, UserError)
    first.release()
    first.release()
    second.take()
    (root / "lock").write_text("")
    with pytest.raises(BusyError, match="in use by another process"):
        first.take()
    second.release()


def test_a_killed_process_releases_the_lock_though_its_child_lives(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    started = int(holder.stdout.readline())
    try:
        with pytest.raises(BusyError, match=f"process {holder.pid};"):
            FolderLock(tmp_path).take()
        holder.kill()
        holder.wait()
        lock = FolderLock(tmp_path)
        lock.take()
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
        lock.release()
    finally:
        holder.stdout.close()
        os.kill(started, signal.SIGKILL)


def test_a_disk_without_locks_is_noted_and_used(tmp_path, monkeypatch, capsys):
    def refuse(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("polytask.files.folder_lock.fcntl.flock", refuse)
    lock = FolderLock(tmp_path)
    lock.take()
    assert "cannot be locked (No locks available)" in capsys.readouterr().err
    lock.release()
