"""The published tables and figures: their rows, what each trains, and what the source reports.

A table is a YAML file in `tables/`. Its rows name a preset, words of `polytask train` that change it, the source's
figures where they are known, and a measured speed from `speeds.yaml`, of such a run or of a similar one. A row that
stands in another table, too, names that one (`same_as`), so each figure is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from polytask.errors import require_known

FOLDER = Path(__file__).with_name("tables")
SPEEDS = Path(__file__).with_name("speeds.yaml")
SOURCES = Path(__file__).with_name("sources.yaml")
OURS = "polytask"  # the source of our own runs
SHARED = ("frames", "measure", "like", "suite")  # keys of a table that its rows have, unless they have their own


@dataclass(frozen=True)
class Speed:
    """A measured speed of training."""

    frames_per_second: float
    source: str  # a file of benchmarks/results
    share: float = 1.0  # of the measured speed, for a run that does more per frame
    is_alike: bool = False  # of a similar run; such a run was not measured
    is_shared: bool = False  # of runs that shared a device, so that the speed of one alone is known only about


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
        suite: The suite of the preset, if the success is known and no words name the tasks.
        measure: How the source measures success: in "training", with exploration noise, or "noiseless".
        is_repeated: Whether it is a row of another table, with its figures.
        interval: The source's 95 % interval, if known.
        hours: The source's hours, if known.
        episode_return: The source's return of an episode, if known.
        speed: The speed of such a run, or of a similar one, if one was measured.
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
    suite: str | None = None
    measure: str = "training"
    is_repeated: bool = False


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
    is_ours: bool = False  # no paper has these runs
    is_for_other_tasks: bool = False  # the user chose the tasks, so the source's figures are left out


@cache
def names() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def read_table(name: str) -> PublishedTable:
    """Read a table.

    Raises:
        UserError: If there is no table of this name.
    """
    content = _content(require_known("table", name, names(), hints=3))
    rows = tuple(_row(key, row) for key, row in _rows(name).items())
    title, kind, source = (content[each] for each in ("title", "kind", "source"))
    paper, seeds, baseline = (content.get(each) for each in ("paper", "seeds", "baseline"))
    return PublishedTable(name, title, kind, source_texts()[source], paper, seeds, rows, baseline, source == OURS)


def _content(name: str) -> dict[str, Any]:
    """Return the content of a table's file."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def _rows(name: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a table's file, each with what all of them share, or with all that its original has."""
    content, found = _content(name), dict[str, dict[str, Any]]()
    shared = {"words": content.get("words", []), **{each: content[each] for each in SHARED if each in content}}
    for key, row in content["rows"].items():
        table, _, original = row.get("same_as", "").rpartition("/")
        base = _rows(table)[original] if table else shared
        found[key] = {**base, **row, "words": [*base["words"], *row.get("words", [])]}
    return found


def stages(rows: Sequence[Row]) -> list[list[Row]]:
    """Return rows in the order of their runs: those that start from no other first, then those that start from these.

    Args:
        rows: Rows of a table, with all that they start from.
    """
    done, left, found = set[str | None]([None]), list(rows), list[list[Row]]()
    while left:
        stage = [row for row in left if row.after in done]
        if not stage:
            raise ValueError(f"rows start from each other or from none of the table: {[row.key for row in left]}")
        found.append(stage)
        done |= {row.key for row in stage}
        left = [row for row in left if row.key not in done]
    return found


def _row(key: str, row: dict[str, Any]) -> Row:
    """Return a row."""
    interval = row.get("interval")
    return Row(
        key=key,
        name=row["name"],
        preset=row["preset"],
        words=tuple(row["words"]),
        frames=row["frames"],
        after=row.get("after"),
        success=row.get("success"),
        interval=None if interval is None else (interval[0], interval[1]),
        hours=row.get("hours"),
        episode_return=row.get("return"),
        speed=_speed(row),
        suite=None if row.get("success") is None else row.get("suite"),
        measure=row.get("measure", "training"),
        is_repeated="same_as" in row,
    )


def _speed(row: dict[str, Any]) -> Speed | None:
    """Return the speed of a row: its own (`speed`), or that of a similar run (`like`, `share`)."""
    if "speed" in row:
        return speeds()[row["speed"]]
    if row.get("like") is None:
        return None
    return replace(speeds()[row["like"]], share=row.get("share", 1.0), is_alike=True)


@cache
def speeds() -> dict[str, Speed]:
    """Return the measured speeds, by name."""
    content: dict[str, dict[str, Any]] = yaml.safe_load(SPEEDS.read_text(encoding="utf-8"))
    return {name: Speed(each["frames_per_second"], each["source"]) for name, each in content.items()}


@cache
def source_texts() -> dict[str, str]:
    """Return where tables are from, by name."""
    content: dict[str, str] = yaml.safe_load(SOURCES.read_text(encoding="utf-8"))
    return content
