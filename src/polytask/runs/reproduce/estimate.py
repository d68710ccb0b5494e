"""How long the runs of a table take, from measured speeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polytask.runs.reproduce.tables import Row, Speed

HOUR, MINUTE = 3600.0, 60.0


@dataclass(frozen=True)
class Estimate:
    """The time of some runs, one at a time on the GPU that the speeds were measured on.

    Attributes:
        seconds: The time of the runs whose speed is known.
        measured: The number of rows that were measured.
        alike: The number of other rows that count with the speed of a similar run.
        rows: The number of rows.
        speeds: The speeds that were used.
    """

    seconds: float
    measured: int
    alike: int
    rows: int
    speeds: tuple[Speed, ...]

    @property
    def known(self) -> int:
        """The number of rows that count."""
        return self.measured + self.alike

    @property
    def text(self) -> str:
        """The estimate in words, such as "at least 1.2 h (3 of 4 rows measured)" or "about 1.2 h"."""
        if not self.known:
            return "not measured"
        counted = f"{self.measured} of {self.rows} rows measured"
        if self.alike:
            counted = f"for {self.known} of {self.rows} rows, {self.measured} measured"
        if self.seconds < MINUTE:
            return "less than a minute" + ("" if self.known == self.rows else f" ({counted})")
        hours = f"{self.seconds / HOUR:.1f} h" if self.seconds >= HOUR else f"{self.seconds / MINUTE:.0f} min"
        time = f"about {hours}" if self.alike or any(speed.is_shared for speed in self.speeds) else hours
        return time if self.known == self.rows else f"at least {time} ({counted})"


def estimate(rows: Sequence[Row], seeds: int, budget: float) -> Estimate:
    """Estimate the time of all runs of some rows, without start-up and evaluation."""
    known = [(row.frames, row.speed) for row in rows if row.speed is not None]
    seconds = sum(seeds * budget * frames / (speed.frames_per_second * speed.share) for frames, speed in known)
    alike = sum(speed.is_alike for _, speed in known)
    return Estimate(seconds, len(known) - alike, alike, len(rows), tuple(dict.fromkeys(speed for _, speed in known)))


def sources(estimates: Iterable[Estimate]) -> list[str]:
    """Return lines that say which measurements the estimates are from, and what they do not count."""
    used = [speed for one in estimates for speed in one.speeds]
    if not used:
        return []
    names = dict.fromkeys(f"{each.source} ({each.frames_per_second / 1e3:,.0f} k frames/s)" for each in used)
    files = ", ".join(names)
    lines = [f"times are of one run after the other on one H200, without start-up; from benchmarks/results: {files}"]
    if any(speed.is_alike for speed in used):
        lines.append(
            "about: rows that were not measured count with the speed of a similar run, of another suite, method or "
            "number of worlds; larger critics and networks that are unlike any measured one are not counted"
        )
    return lines
