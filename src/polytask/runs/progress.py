"""The live display of a training run: progress, speed, time left and success per task.

It is written to stderr. Without a terminal it is a plain line about every five seconds.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from polytask.files import LogRow
from polytask.result import cell, note

PLAIN_INTERVAL = 5.0  # seconds between two lines if there is no terminal
BAR = 20  # length of a full bar, in characters


class ProgressDisplay:
    """Show the latest row of a run's metrics."""

    def __init__(self, tasks: tuple[str, ...], total_frames: int, start_frames: int = 0, ranks: int = 1) -> None:
        """Create the display. It becomes visible when its context is entered."""
        self._tasks = tasks
        self._ranks = f"on {ranks} ranks  " if ranks > 1 else ""
        self._total, self._start = total_frames, start_frames
        self._began = self._printed = time.monotonic()
        self._console = Console(file=sys.stderr)
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.percentage:>3.0f}%"))
        self._progress = Progress(*columns, console=self._console, expand=True)
        self._bar = self._progress.add_task("training", total=total_frames, completed=start_frames)
        self._live = Live(self._progress, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> ProgressDisplay:
        """Show the display if there is a terminal."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the display."""
        if self._console.is_terminal:
            self._live.stop()

    def update(self, row: LogRow) -> None:
        """Show a row."""
        line = self._headline(row)
        if self._console.is_terminal:
            self._progress.update(self._bar, completed=row["frames"], description=line)
            self._live.update(Group(self._progress, self._success(row)))
            return
        now = time.monotonic()
        is_last = int(row["frames"] or 0) >= self._total
        if now - self._printed >= PLAIN_INTERVAL or row["iteration"] == 1 or is_last:
            self._printed = now
            tasks = "  ".join(f"{task} {rate(row.get(f'success/{task}'))}" for task in self._tasks)
            note(f"{line}  [{tasks}]")

    def _headline(self, row: LogRow) -> str:
        frames = int(row["frames"] or 0)
        done = frames - self._start
        left = (time.monotonic() - self._began) * (self._total - frames) / max(done, 1)
        speed = row.get("frames_per_second") or 0.0
        return (
            f"iteration {row['iteration']}  {frames:,} frames  {speed:,.0f}/s  {self._ranks}"
            f"success {rate(row.get('success'))}  {clock(left)} left"
        )

    def _success(self, row: LogRow) -> Table:
        table = Table(header_style="bold")
        for column in ("task", "success"):
            table.add_column(column)
        for column in ("rate", "return"):
            table.add_column(column, justify="right")
        for task in self._tasks:
            value = row.get(f"success/{task}")
            bar = f"{'█' * round(BAR * (value or 0.0)):░<{BAR}}"
            table.add_row(task, bar, rate(value), cell(row.get(f"return/{task}")))
        return table


def rate(value: Any) -> str:
    """Format a success rate: two digits after the point, so that rates in one line can be compared."""
    return "-" if value is None else f"{value:.2f}"


def clock(seconds: float) -> str:
    """Format a duration as h:mm:ss or m:ss."""
    minutes, rest = divmod(int(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
