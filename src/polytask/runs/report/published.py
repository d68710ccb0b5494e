"""The published figures of presets, from the tables of `polytask reproduce`, and which runs they belong to.

A run does not save the name of its preset. It belongs to a row of a table if its setting is that of the row: its preset
and words. The device, the physics backend and compilation may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.result import Share
from polytask.runs.report.labels import Setting, identity, portable, setting_of
from polytask.runs.report.pool import Pool
from polytask.runs.report.tables import comma_separated, ends_text, interval_text
from polytask.runs.reproduce.tables import PublishedTable, Row, names, read_table


@dataclass(frozen=True)
class Published:
    """One published result."""

    preset: str
    suite: str | None  # None: the words name the tasks
    table: str  # its title
    measure: str  # of success: training or noiseless
    about: str  # what was measured
    source: str
    name: str  # of the method, in the source
    success: float
    interval: tuple[float, float] | None = None
    episode_return: float | None = None
    frames: int | None = None
    seeds: int | None = None
    hours: float | None = None
    words: tuple[str, ...] = ()  # that change the preset


@cache
def published() -> list[Published]:
    """Read all published results, each once."""
    rows = ((table, row) for table in map(read_table, names()) for row in table.rows)
    found = [published_row(table, row) for table, row in rows if not row.is_repeated]
    return [one for one in found if one is not None]


def published_row(table: PublishedTable, row: Row) -> Published | None:
    """Return what was published about a row of a table, if its success is known."""
    if row.success is None:
        return None
    return Published(
        preset=row.preset,
        words=row.words,
        suite=row.suite,
        table=table.title,
        measure=row.measure,
        about=table.paper or "",
        source=table.source,
        name=row.name,
        success=row.success,
        interval=row.interval,
        episode_return=row.episode_return,
        frames=row.frames,
        seeds=table.seeds,
        hours=row.hours,
    )


def find_published(pools: Sequence[Pool]) -> dict[str, Published]:
    """Return the published results of settings, by the name of the setting."""
    suites = [one.setting.get("tasks") for one in pools]
    near = [each for each in published() if any(_has_tasks(each, tasks) for tasks in suites)]  # the others take seconds
    known = {_portable(_composed(each.preset, each.words)): each for each in near}
    return {one.name: known[key] for one in pools if (key := _portable(one.setting)) in known}


def _has_tasks(one: Published, tasks: Any) -> bool:
    """Return whether a published result is of a suite, or of a list of tasks."""
    return one.suite == tasks if isinstance(tasks, str) else f"tasks=[{','.join(tasks)}]" in one.words


@cache
def _composed(preset: str, words: tuple[str, ...]) -> Setting:
    """Return the setting of a preset and words that change it."""
    return setting_of(to_plain(compose(TrainConfig, [f"preset={preset}", *words])))


def _portable(setting: Setting) -> str:
    """Return what two settings on different machines have in common."""
    return identity(portable(setting))


def beside(pools: Sequence[Pool], found: Mapping[str, Published]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a table that has published results beside ours, measured in the same way."""
    columns = [
        "setting", "published as", "measure", "success", "95 % interval", "seeds", "M frames", "hours", "return",
        "published success", "published interval", "its seeds", "its M frames", "its hours", "its return",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for one in pools:
        if one.name not in found:
            continue
        theirs, score, reward = found[one.name], one.scores.get(found[one.name].measure), one.episode_return()
        ours: list[Any] = [None, None, None]
        if score is not None:
            ours = [Share(score.value), interval_text(score, len(one.logs), decimals=3), score.runs]
        hours = None if one.minutes is None else one.minutes / 60.0
        bounds = theirs.interval and ends_text(theirs.interval)
        row = [
            one.name,
            None if theirs.name == one.name else theirs.name,
            theirs.measure,
            *ours,
            one.frames[1] / 1e6,
            hours,
            reward and reward[0],
        ]
        millions = theirs.frames and theirs.frames / 1e6
        rows.append([*row, Share(theirs.success), bounds, theirs.seeds, millions, theirs.hours, theirs.episode_return])
    used = [index for index in range(len(columns)) if any(row[index] is not None for row in rows)]
    return [columns[index] for index in used], [[row[index] for index in used] for row in rows]


def published_numbers(found: Mapping[str, Published]) -> str:
    """Return the published results of settings as comma-separated values."""
    columns = [
        "setting",
        "preset",
        "published_as",
        "measure",
        "success",
        "low",
        "high",
        "return",
        "seeds",
        "frames",
        "hours",
    ]
    rows = []
    for name, each in found.items():
        low, high = each.interval or (None, None)
        measured = (each.success, low, high, each.episode_return, each.seeds, each.frames, each.hours)
        rows.append([name, each.preset, each.name, each.measure, *measured])
    return comma_separated(columns, rows)


def sources(found: Mapping[str, Published]) -> list[str]:
    """Return one line per published table that is used: what it measured, and where it was published."""
    return list(dict.fromkeys(f"{each.table}: {each.about} Source: {each.source}." for each in found.values()))
