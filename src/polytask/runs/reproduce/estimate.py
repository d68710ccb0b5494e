"""How long the runs of a table take, from measured speeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polytask.runs.reproduce.tables import Row, Speed

HOUR = 3600.0


@dataclass(frozen=True)
class Estimate:
    """The time of some runs, one at a time on the GPU that the speeds were measured on.

    Attributes:
        seconds: The time of the runs whose speed is known.
        known: The number of rows whose speed is known.
        rows: The number of rows.
        speeds: The speeds that were used.
    """

    seconds: float
    known: int
    rows: int
    speeds: tuple[Speed, ...]

    @property
    def text(self) -> str:
        """The estimate in words, such as "at least 1.2 h (3 of 4 rows measured)"."""
        if not self.known:
            return "not measured"
        hours = f"{self.seconds / HOUR:.1f} h" if self.seconds >= HOUR else f"{self.seconds / 60:.0f} min"
        return hours if self.known == self.rows else f"at least {hours} ({self.known} of {self.rows} rows measured)"


def estimate(rows: Sequence[Row], seeds: int, budget: float) -> Estimate:
    """Estimate the time of all runs of some rows, without start-up and evaluation."""
    known = [(row, row.speed) for row in rows if row.speed is not None]
    seconds = sum(seeds * budget * row.frames / speed.frames_per_second for row, speed in known)
    return Estimate(seconds, len(known), len(rows), tuple(dict.fromkeys(speed for _, speed in known)))


def sources(estimates: Iterable[Estimate]) -> list[str]:
    """Return lines that say which measurements the estimates are from."""
    used = list(dict.fromkeys(speed for one in estimates for speed in one.speeds))
    if not used:
        return []
    files = ", ".join(f"{each.source} ({each.frames_per_second / 1e3:,.0f} k frames/s)" for each in used)
    return [f"times are of one run after the other on one H200, without start-up; from benchmarks/results: {files}"]
