"""Let measurements that start together be timed one at a time: a start takes longer than what is timed."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 240.0  # seconds after which a measurement no longer waits for the others to be ready


def mark_ready(folder: Path, name: str) -> None:
    """Tell the others that this measurement has started; one that failed must do so too."""
    (folder / f"{name}.ready").touch()


@contextmanager
def turn(folder: Path, name: str, total: int) -> Iterator[None]:
    """Wait until all measurements are ready, then until no other is being timed."""
    mark_ready(folder, name)
    begin = time.monotonic()
    while len(list(folder.glob("*.ready"))) < total and time.monotonic() - begin < PATIENCE:
        time.sleep(0.2)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
