"""Show how far a long piece of drawing is: a bar in a terminal, one line elsewhere. Both are written to stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polytask.result import note

PATIENCE = 2.0  # seconds before anything is shown


class RenderProgress:
    """Count finished steps. Nothing is shown if all are finished within `PATIENCE`."""

    def __init__(self, what: str, total: int) -> None:
        """Prepare to count `total` steps; `what` describes them, such as "drawing the video"."""
        self._what, self._total, self._done = what, total, 0
        self._began = time.monotonic()
        self._is_shown = False
        columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(file=sys.stderr), transient=True, expand=True)

    def __enter__(self) -> RenderProgress:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._bar.live.is_started:  # stopping a bar that was not started prints an empty line
            self._bar.stop()

    def advance(self) -> None:
        """Count one more finished step."""
        self._done += 1
        seconds = time.monotonic() - self._began
        if not self._is_shown and seconds > PATIENCE and self._done < self._total:
            self._is_shown = True
            self._show(seconds * (self._total - self._done) / self._done)
        if self._bar.tasks:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def _show(self, left: float) -> None:
        """Show the bar or, if there is no terminal, print a line with the number of seconds left."""
        if self._bar.console.is_terminal:
            self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        else:
            note(f"{self._what}: {self._done} of {self._total} done, about {left:.0f} s left")
