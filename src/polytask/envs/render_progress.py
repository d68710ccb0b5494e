"""Show how far a long piece of work is: a bar in a terminal, one line elsewhere. Both are written to stderr."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polytask.result import note

PATIENCE = 2.0  # seconds before anything is shown


class RenderProgress(AbstractContextManager["RenderProgress"]):
    """Count finished steps. Nothing is shown if all are finished within `PATIENCE`."""

    def __init__(self, what: str, total: int, began: float | None = None, enough: float = 0.0) -> None:
        """Prepare to count steps.

        Args:
            what: What they are, such as "drawing the video".
            total: Their number.
            began: When they began, as `time.monotonic` tells it; now, if not given.
            enough: Share of the steps that must be finished before a line tells the time left, for steps that differ.
        """
        self._what, self._total, self._enough, self.done = what, total, enough * total, 0
        self._began = time.monotonic() if began is None else began
        self._is_shown = False
        columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(file=sys.stderr), transient=True, expand=True)

    def __exit__(self, *exception: object) -> None:
        """Remove the bar."""
        if self._bar.live.is_started:  # stopping a bar that was not started prints an empty line
            self._bar.stop()

    @property
    def is_over(self) -> bool:
        """Whether all steps are finished."""
        return self.done >= self._total

    def advance(self, count: int = 1) -> None:
        """Count `count` more finished steps."""
        self.done += count
        seconds = time.monotonic() - self._began
        is_due = seconds > PATIENCE and (self._bar.console.is_terminal or self.done >= self._enough)
        if not self._is_shown and is_due and 0 < self.done < self._total:
            self._is_shown = True
            self._show(seconds * (self._total - self.done) / self.done)
        if self._bar.tasks:
            self._bar.update(self._bar.task_ids[0], completed=self.done)

    def _show(self, left: float) -> None:
        """Show the bar or, if there is no terminal, print a line with the number of seconds left."""
        if self._bar.console.is_terminal:
            self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        else:
            note(f"{self._what}: {self.done} of {self._total} done, about {left:.0f} s left")
