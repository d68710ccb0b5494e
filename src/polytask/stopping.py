"""Stop a command by a signal: the step in progress ends, the state is saved, and the exit code names the signal."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from polytask.result import note

SAME = 1.0  # seconds in which a signal that is repeated means the same request: `timeout` sends each signal twice


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[dict[int, Any]]:
    """Let a function handle SIGINT (Ctrl-C) and SIGTERM; return the handlers before, which the end restores.

    Only the main thread may set handlers, so in another thread nothing changes.
    """
    before: dict[int, Any] = {}
    is_main = threading.current_thread() is threading.main_thread()
    for kind in (signal.SIGINT, signal.SIGTERM) if is_main else ():
        before[kind] = signal.signal(kind, handler)
    try:
        yield before
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def stop_requests(step: str = "iteration", *, is_announced: bool = True) -> Iterator[list[int]]:
    """Collect SIGINT (Ctrl-C) and SIGTERM, so that the step in progress ends and a checkpoint is written.

    A second signal of the same kind, unless it comes at the same moment, has its usual effect and stops the process at
    once.

    Args:
        step: What ends before the command stops, for the message.
        is_announced: Print the message when a signal arrives; otherwise the caller prints one.
    """
    received: list[int] = []
    first: dict[int, float] = {}  # when each kind of signal came first

    def remember(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number not in first:
            first[number] = now
            received.append(number)
            if is_announced:
                note(f"stopping after this {step}; repeat to stop at once")
        elif now - first[number] > SAME:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    with handled_by(remember) as before:
        yield received


def exit_code(received: Sequence[int]) -> int:
    """Return the exit code of a command that received these signals: 0 without any, else 128 plus the number.

    Shells use the same codes: 130 for SIGINT and 143 for SIGTERM.
    """
    return 128 + received[0] if received else 0
