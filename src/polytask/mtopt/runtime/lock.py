"""One process at a time writes the state of a run: an exclusive lock on `STORE/lock`.

The system lets go of the lock when the process ends, however it ends: what a killed run left locks nobody out. What
only appends to the store (a collector beside the run, the labelling page) needs no lock.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from polytask.errors import UserError

FILE_NAME = "lock"


class BusyError(UserError):
    """Another process has the run."""


class RunLock:
    """Taken by `take`, given back by `release` or by the end of the process."""

    def __init__(self, root: Path) -> None:
        """Name the run's folder."""
        self.path = root / FILE_NAME
        self._file: int | None = None

    def take(self) -> None:
        """Lock the run, unless this object has it already; the file then says which process has it.

        Raises:
            BusyError: If another process has it.
        """
        if self._file is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)  # programs that this one starts do not inherit it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            who = f"process {holder}" if holder else "another process"
            raise BusyError(f"the run in '{self.path.parent}' is in use by {who}; wait for it or end it") from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        """Give the lock back, if it was taken."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
