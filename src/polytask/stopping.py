"""Stop a command by a signal: the step in progress ends, the state is saved, and the exit code names the signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from polytask.result import note


@contextmanager
def stop_requests(step: str = "iteration", *, is_announced: bool = True) -> Iterator[list[int]]:
    """Collect SIGINT (Ctrl-C) and SIGTERM, so that the step in progress ends and a checkpoint is written.

    A second signal has its usual effect and stops the process at once.

    Args:
        step: What ends before the command stops, for the message.
        is_announced: Print the message when a signal arrives; otherwise the caller prints one.
    """
    received: list[int] = []
    before: dict[int, Any] = {}  # the handlers to restore

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[number])
        if is_announced:
            note(f"stopping after this {step}; repeat to stop at once")

    is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers
    for kind in (signal.SIGINT, signal.SIGTERM) if is_main else ():
        before[kind] = signal.signal(kind, remember)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(received: Sequence[int]) -> int:
    """Return the exit code of a command that received these signals: 0 without any, else 128 plus the number.

    Shells use the same codes: 130 for SIGINT and 143 for SIGTERM.
    """
    return 128 + received[0] if received else 0
