"""The published tables and figures: their rows, what each trains, and what the source reports.

A table is a YAML file in `tables/`. Its rows name a preset, words of `polytask train` that change it, the source's
figures where they are known, and a measured speed from `speeds.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from polytask.errors import require_known

FOLDER = Path(__file__).with_name("tables")
SPEEDS = Path(__file__).with_name("speeds.yaml")


@dataclass(frozen=True)
class Speed:
    """A measured speed of training."""

    frames_per_second: float
    source: str  # a file of benchmarks/results


@dataclass(frozen=True)
class Row:
    """One row of a table, or one point of a figure.

    Attributes:
        key: A short name, for `rows=` and for folders.
        name: Its name in the source.
        preset: The preset that repeats it.
        words: Words of `polytask train` that change the preset.
        frames: Frames of a run.
        after: The row whose networks a run of the same seed starts from, if any.
        success: The source's success rate, if known.
        interval: The source's 95 % interval, if known.
        hours: The source's hours, if known.
        episode_return: The source's return of an episode, if known.
        speed: The speed of such a run, if one was measured.
    """

    key: str
    name: str
    preset: str
    words: tuple[str, ...]
    frames: int
    after: str | None = None
    success: float | None = None
    interval: tuple[float, float] | None = None
    hours: float | None = None
    episode_return: float | None = None
    speed: Speed | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A published table or figure."""

    name: str  # of its file, such as "mtbench/mt10_rand"
    title: str
    kind: str  # table or figure
    source: str
    paper: str | None  # what the source's figures are; None if they are not known
    seeds: int | None  # of the source
    rows: tuple[Row, ...]
    baseline: str | None = None  # the row that the others are compared with


@cache
def names() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def read_table(name: str) -> PublishedTable:
    """Read a table.

    Raises:
        UserError: If there is no table of this name.
    """
    path = FOLDER / f"{require_known('table', name, names(), hints=3)}.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    common = content.get("words", [])
    rows = tuple(_row(key, row, content["frames"], common) for key, row in content["rows"].items())
    title, kind, source = (content[each] for each in ("title", "kind", "source"))
    paper, seeds, baseline = (content.get(each) for each in ("paper", "seeds", "baseline"))
    return PublishedTable(name, title, kind, source, paper, seeds, rows, baseline)


def _row(key: str, row: dict[str, Any], frames: int, common: list[str]) -> Row:
    interval = row.get("interval")
    return Row(
        key=key,
        name=row["name"],
        preset=row["preset"],
        words=(*common, *row.get("words", [])),
        frames=row.get("frames", frames),
        after=row.get("after"),
        success=row.get("success"),
        interval=None if interval is None else (interval[0], interval[1]),
        hours=row.get("hours"),
        episode_return=row.get("return"),
        speed=speeds()[row["speed"]] if "speed" in row else None,
    )


@cache
def speeds() -> dict[str, Speed]:
    """Return the measured speeds, by name."""
    content: dict[str, dict[str, Any]] = yaml.safe_load(SPEEDS.read_text(encoding="utf-8"))
    return {name: Speed(each["frames_per_second"], each["source"]) for name, each in content.items()}
