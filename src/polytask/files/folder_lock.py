"""An exclusive lock on a folder, `FOLDER/lock`: one process at a time writes the state of the run in it.

The system releases the lock when the process ends, also after a kill, so a killed run locks no other process out.
Processes that only read, or that only append to an MT-Opt store (a collector alongside the run, the labelling page),
need no lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polytask.errors import UserError
from polytask.files import can_write, make_folder, remove_stale_parts
from polytask.result import note

FILE_NAME = "lock"


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Run the block in one process at a time: others wait for the lock on the file `path`, which is made if missing."""
    with can_write(path):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


class BusyError(UserError):
    """Another process has the folder."""


class FolderLock:
    """The lock of a run's folder; `release` or the end of the process releases it."""

    def __init__(self, root: Path) -> None:
        """Use the lock of this folder, without locking it yet."""
        self.path = root / FILE_NAME
        self._file: int | None = None

    def take(self) -> None:
        """Lock the folder, unless this object has it already, and write the process id to the file.

        The folder is made if it does not exist. Temporary files that killed processes left in it are removed.

        Raises:
            BusyError: If another process has it.
            UserError: If the folder cannot be written.
        """
        if self._file is not None:
            return
        make_folder(self.path.parent)
        with can_write(self.path):
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)  # child programs do not inherit it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            who = f"process {holder}" if holder else "another process"
            raise BusyError(f"the run in '{self.path.parent}' is in use by {who}; wait for it or end it") from None
        except OSError as error:  # some network file systems have no locks
            note(f"'{self.path}' cannot be locked ({error.strerror}); let no other process use this folder")
        self._file = file
        with can_write(self.path):
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        remove_stale_parts(self.path.parent)

    def release(self) -> None:
        """Release the lock, if this object has it."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
