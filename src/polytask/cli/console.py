"""What a person sees: a live display while a run goes on, and tables of results.

Progress goes to stderr, results to stdout. Without a terminal the live display becomes a plain line now and then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from polytask.runs.logger import Record, clean

PLAIN_INTERVAL = 5.0  # s between two lines where there is no terminal
BAR = 20  # characters of a full bar


@dataclass
class Result:
    """What a command hands to the command line: an object for `format=json`, tables and lines for people."""

    payload: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exit_code: int = 0


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Lay out rows; numbers stand right-aligned."""
    cells = [[_cell(value) for value in row] for row in rows]
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for index, column in enumerate(columns):
        is_number = all(_is_number(row[index]) for row in cells) and bool(cells)
        result.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        result.add_row(*row)
    return result


def show(result: Result, output_format: str) -> None:
    """Print a result to stdout: one JSON object, or tables and lines."""
    if output_format == "json":
        sys.stdout.write(json.dumps(clean(result.payload)) + "\n")
        sys.stdout.flush()
        return
    # Without a terminal there is no width to respect: never cut a table short in a log file.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160)
    for each in result.tables:
        console.print(each)
    for line in result.lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def note(line: str) -> None:
    """Tell the user something while a command runs."""
    Console(file=sys.stderr).print(line, markup=False, highlight=False, soft_wrap=True)


class Display:
    """Progress, speed, time left and success per task while a run goes on."""

    def __init__(self, tasks: tuple[str, ...], total_frames: int, start_frames: int = 0) -> None:
        """Prepare; nothing shows before the display is entered."""
        self._tasks = tasks
        self._total, self._start = total_frames, start_frames
        self._began = self._printed = time.monotonic()
        self._console = Console(file=sys.stderr)
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.percentage:>3.0f}%"))
        self._progress = Progress(*columns, console=self._console, expand=True)
        self._bar = self._progress.add_task("training", total=total_frames, completed=start_frames)
        self._live = Live(self._progress, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Display:
        """Show the display where there is a terminal."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the display down."""
        if self._console.is_terminal:
            self._live.stop()

    def update(self, record: Record) -> None:
        """Show the latest record."""
        line = self._headline(record)
        if self._console.is_terminal:
            self._progress.update(self._bar, completed=record["frames"], description=line)
            self._live.update(Group(self._progress, self._success(record)))
            return
        now = time.monotonic()
        is_last = int(record["frames"] or 0) >= self._total
        if now - self._printed >= PLAIN_INTERVAL or record["iteration"] == 1 or is_last:
            self._printed = now
            tasks = "  ".join(f"{task} {_cell(record.get(f'success/{task}'))}" for task in self._tasks)
            note(f"{line}  [{tasks}]")

    def _headline(self, record: Record) -> str:
        frames = int(record["frames"] or 0)
        done = frames - self._start
        left = (time.monotonic() - self._began) * (self._total - frames) / max(done, 1)
        speed = record.get("frames_per_second") or 0.0
        return (
            f"iteration {record['iteration']}  {frames:,} frames  {speed:,.0f}/s  "
            f"success {_cell(record.get('success'))}  {clock(left)} left"
        )

    def _success(self, record: Record) -> Table:
        rows = []
        for task in self._tasks:
            value = record.get(f"success/{task}")
            rows.append((task, f"{'█' * round(BAR * (value or 0.0)):░<{BAR}}", value, record.get(f"return/{task}")))
        return table("", ("task", "success", "rate", "return"), rows)


def clock(seconds: float) -> str:
    """Write a duration as h:mm:ss or m:ss."""
    minutes, rest = divmod(int(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").replace("-", "").replace("e", "").isdigit() or cell == "-"
