"""The progress of all runs of a sweep: one line for the sweep and one for each run in progress, on stderr.

Without a terminal it is one line about every half minute, and one when a run ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from polytask.files import LogRow, parse_json
from polytask.result import cell, note
from polytask.runs.file_names import METRICS_FILE
from polytask.runs.progress import clock
from polytask.runs.sweep.plan import Item

LIVE_INTERVAL, PLAIN_INTERVAL = 1.0, 30.0  # seconds between two looks at the logs
TAIL = 2**18  # bytes at the end of a log, more than its last row


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    frames: int
    share: float | None  # of its limit on frames or iterations
    success: float | None
    speed: float  # frames per second of the last iteration


class SweepDisplay:
    """Shows the items of a sweep. The pool changes their states and calls `update`."""

    def __init__(self, items: Sequence[Item]) -> None:
        """Create the display, without showing it yet."""
        self._items = items
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        # When it was last updated; a log needs no line about runs that have only just started.
        self._shown = 0.0 if self._console.is_terminal else time.monotonic()

    def shown(self) -> AbstractContextManager[Any]:
        """Return a context during which the display is visible, if there is a terminal."""
        return self._live if self._console.is_terminal else nullcontext()

    def update(self) -> None:
        """Show how all runs stand, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._shown < (LIVE_INTERVAL if self._console.is_terminal else PLAIN_INTERVAL):
            return
        self._shown = now
        running = {item.name: progress_of(item) for item in self._items if item.state == "running"}
        head = self._headline(running)
        if self._console.is_terminal:
            lines = [head, *(f"  {name}  {line_of(progress)}" for name, progress in running.items())]
            self._live.update(Text("\n".join(lines)), refresh=True)
        elif running:
            note(f"{head}: " + " | ".join(f"{name} {line_of(progress)}" for name, progress in running.items()))

    def tell(self, line: str) -> None:
        """Print a line above the display."""
        if self._console.is_terminal:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            note(line)

    def _headline(self, running: dict[str, Progress | None]) -> str:
        states = [item.state for item in self._items]
        parts = [f"{states.count('done')} of {len(states)} runs done"]
        parts += [f"{states.count(state)} {state}" for state in ("failed", "running") if state in states]
        left = seconds_left(self._items, running)
        return ", ".join([*parts, *([] if left is None else [f"about {clock(left)} left"])])


def seconds_left(items: Sequence[Item], running: dict[str, Progress | None]) -> float | None:
    """Estimate the time that all remaining frames take at the present speed; None if frames do not limit the runs."""
    speed = sum(each.speed for each in running.values() if each is not None)
    frames = 0
    for item in items:
        limit = item.setting.config.max_frames
        if item.state in ("done", "failed"):
            continue
        if limit is None or item.setting.config.max_iterations is not None:
            return None
        progress = running.get(item.name)
        frames += max(0, limit - (progress.frames if progress else 0))
    return frames / speed if speed > 0 else None


def progress_of(item: Item) -> Progress | None:
    """Return how far a run is, from the last row of its log; None if it has none yet."""
    row = last_row(item.run_dir / METRICS_FILE)
    if row is None:
        return None
    config = item.setting.config
    limits = (("frames", config.max_frames), ("iteration", config.max_iterations))
    shares = [float(row.get(name) or 0) / limit for name, limit in limits if limit is not None]
    share = min(1.0, max(shares)) if shares else None
    return Progress(int(row.get("frames") or 0), share, row.get("success"), row.get("frames_per_second") or 0.0)


def line_of(progress: Progress | None) -> str:
    """Describe how far a run is."""
    if progress is None:
        return "starting"
    done = "" if progress.share is None else f"{100 * progress.share:.0f} % "
    return f"{done}{cell(progress.frames)} frames {cell(progress.speed)}/s training success {cell(progress.success)}"


def last_row(path: Path) -> LogRow | None:
    """Return the last whole row of a log that another process writes; None if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        row = parse_json(line)
        if isinstance(row, dict):  # a line that is still being written is not
            return row
    return None
