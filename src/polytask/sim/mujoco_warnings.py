"""Count MuJoCo's warnings. MuJoCo itself prints one per world and step, and writes them all to MUJOCO_LOG.TXT."""

from __future__ import annotations

import atexit
import re
from collections import Counter
from threading import Lock

import mujoco

from polytask.result import note

_DETAIL = re.compile(r",? at [A-Z]+ \d|[.(\d]")  # where the part of a message begins that differs between worlds


class WarningCounter:
    """Print the first warning of each kind when it occurs, and the number of all when the process ends."""

    def __init__(self) -> None:
        """Begin without warnings."""
        self._counts: Counter[str] = Counter()
        self._lock = Lock()  # several threads step worlds

    def add(self, message: str) -> None:
        """Count a warning; print it if it is the first of its kind."""
        kind = _DETAIL.split(message, maxsplit=1)[0].strip()
        with self._lock:
            self._counts[kind] += 1
            is_first = self._counts[kind] == 1
        if is_first:
            note(f"MuJoCo: {kind}; more warnings of this kind are counted, not printed")

    def report(self) -> None:
        """Print how often each kind of warning occurred, if more than once."""
        for kind, count in self._counts.items():
            if count > 1:
                note(f"MuJoCo: {kind}, {count:,} times")


def count_warnings() -> None:
    """Count MuJoCo's warnings from now on, unless a function already handles them."""
    if mujoco.get_mju_user_warning() is None:
        counter = WarningCounter()
        mujoco.set_mju_user_warning(counter.add)
        atexit.register(counter.report)
