"""`polytask reproduce`: run what is missing of a published table or figure, and show the published numbers too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any

from polytask.config.launching import ReproduceConfig
from polytask.config.schema import ReportConfig
from polytask.errors import UserError, suggest
from polytask.files import Fields, read_json
from polytask.result import Result, Share, Table, note
from polytask.runs.file_names import SUMMARY_FILE
from polytask.runs.report import Known, report
from polytask.runs.report.published import Published
from polytask.runs.report.tables import ends_text
from polytask.runs.reproduce.changes import (
    check_changes,
    check_only_lists,
    check_rows_differ,
    other_than_published,
)
from polytask.runs.reproduce.estimate import HOUR, estimate, sources
from polytask.runs.reproduce.tables import PublishedTable, Row, Speed, names, read_table
from polytask.runs.sweep.command import commands, conclude, train_all
from polytask.runs.sweep.grid import Setting, settings_of
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.plan import Item, plan

Trained = list[tuple[Row, Item]]


def reproduce(config: ReproduceConfig) -> Result:
    """Run `polytask reproduce`."""
    if config.table is None:
        check_only_lists(config)
        return listing(config)
    table = read_table(config.table)
    rows = choose(table, config.rows)
    changes = config.changes or []
    check_changes(changes, rows)
    root = Path(config.output or default_folder(config)).expanduser()
    first = [row for row in rows if row.after is None]
    later = [row for row in rows if row.after is not None]
    settings = {row.key: setting_of(row, config, {}) for row in first}
    check_rows_differ(settings, changes)
    # Check the rows that start from others before anything runs, with a stand-in for the folder.
    check_rows_differ({row.key: setting_of(row, config, {str(row.after): "row"}) for row in later}, changes)
    if config.dry_run:
        return _dry_run(first, later, settings, config, root)
    expected = estimate(rows, config.seeds, config.budget)
    time = f"all runs take {expected.text}" if expected.known else "nobody has measured how long the runs take"
    for line in (f"{table.title}: {time}", *sources([expected]), *other_than_published(changes)):
        note(line)
    items, code = train_all([settings[row.key] for row in first], config, root)
    trained = _by_row(first, items)
    if later and not code:
        starts = {row.key: item.name.partition("/")[0] for row, item in trained}
        more, code = train_all([setting_of(row, config, starts, root) for row in later], config, root)
        items, trained = [*items, *more], [*trained, *_by_row(later, more)]
    return conclude(items, root, code, *compare(table, rows, trained, root, remarks_on(config)))


def remarks_on(config: ReproduceConfig) -> tuple[str, ...]:
    """Return what a reader must know about all runs of a command."""
    share = f"budget={config.budget:g}: every run has {100 * config.budget:g} % of the published frames"
    return (*((share,) if config.budget != 1.0 else ()), *other_than_published(config.changes or []))


def listing(config: ReproduceConfig) -> Result:
    """Return the list of all tables: their runs and frames, and how long they take."""
    tables = [read_table(name) for name in names()]
    estimates = [estimate(each.rows, config.seeds, config.budget) for each in tables]
    cells, facts = list[tuple[Any, ...]](), list[dict[str, Any]]()
    for table, time in zip(tables, estimates, strict=True):
        runs = len(table.rows) * config.seeds
        frames = int(sum(row.frames for row in table.rows) * config.seeds * config.budget)
        cells.append((table.name, f"{table.kind}: {table.title}", runs, round(frames / 1e6), time.text))
        facts.append({
            "table": table.name,
            "kind": table.kind,
            "title": table.title,
            "source": table.source,
            "rows": [row.key for row in table.rows],
            "runs": runs,
            "frames": frames,
            "seconds": time.seconds if time.known else None,
            "measured_rows": time.measured,
            "rows_like_measured": time.alike,
        })  # fmt: skip
    how = f"published tables and figures, seeds={config.seeds} budget={config.budget:g}"
    shown = Table(how, ("table", "what", "runs", "M frames", "time"), cells)
    lines = [*sources(estimates), "run one: polytask reproduce table=NAME seeds=3 budget=0.05"]
    return Result({"tables": facts}, [shown], lines)


def default_folder(config: ReproduceConfig) -> str:
    """Return the folder of a table's runs. Runs with fewer frames are other runs, so they have another folder."""
    part = "" if config.budget == 1.0 else f"-budget{config.budget:g}"
    return f"runs/reproduce/{config.table}{part}"


def choose(table: PublishedTable, patterns: Sequence[str] | None) -> list[Row]:
    """Return the rows that match names or patterns, and the rows that those start from.

    Raises:
        UserError: If a pattern matches none.
    """
    keys = [row.key for row in table.rows]
    wanted = set[str]()
    for pattern in patterns or ["*"]:
        found = [key for key in keys if fnmatchcase(key, pattern)]
        if not found:
            raise UserError(f"unknown row '{pattern}' of table '{table.name}'; {suggest(pattern, keys)}")
        wanted |= {*found}
    wanted |= {row.after for row in table.rows if row.key in wanted and row.after is not None}
    return [row for row in table.rows if row.key in wanted]


def setting_of(row: Row, config: ReproduceConfig, starts: dict[str, str], root: Path | None = None) -> Setting:
    """Return what a row trains.

    Args:
        row: The row.
        config: The settings of the command.
        starts: Row -> folder of its runs, for rows that start from the networks of another.
        root: The folder of the table.
    """
    words = [f"preset={row.preset}", "video=false", *row.words]
    if config.budget != 1.0:
        words.append(f"max_frames={max(1, round(row.frames * config.budget))}")
    if row.after is not None:
        words.append(f"init_from={root or ''}/{starts[row.after]}/seed-{{seed}}")
    (setting,) = settings_of([*config.plugin_words, *words, *(config.changes or [])])
    return Setting(setting.words, row.key, setting.config)


def _by_row(rows: Sequence[Row], items: Sequence[Item]) -> Trained:
    """Return the runs with their rows; the plan has all rows for each seed."""
    return [(rows[number % len(rows)], item) for number, item in enumerate(items)]


def _dry_run(
    first: Sequence[Row], later: Sequence[Row], settings: dict[str, Setting], config: ReproduceConfig, root: Path
) -> Result:
    """Return the commands of all runs that are not complete."""
    index = Index(root)
    items = plan([settings[row.key] for row in first], config.all_seeds, root, index)
    starts = {row.key: item.name.partition("/")[0] for row, item in _by_row(first, items)}
    more = [setting_of(row, config, starts, root) for row in later]
    return commands([*items, *plan(more, config.all_seeds, root, index)])


def compare(
    table: PublishedTable, rows: Sequence[Row], trained: Trained, root: Path, remarks: tuple[str, ...] = ()
) -> tuple[list[Table], list[str], dict[str, Any]]:
    """Return the report on the complete runs, and a table of all rows with the published numbers beside ours.

    Args:
        table: The table.
        rows: Its rows to show.
        trained: The runs of these rows.
        root: The folder of the table.
        remarks: Lines about all runs.
    """
    done = [(row, item) for row, item in trained if item.state == "done"]
    facts = [beside(row, [item for other, item in done if other is row]) for row in rows]
    columns = (
        "row",
        "seeds",
        "training success",
        "noiseless success",
        "M frames",
        "hours",
        "published",
        "interval",
        "measure",
    )
    cells = [
        (
            one["name"],
            one["seeds"],
            _share(one["training_success"]),
            _share(one["noiseless_success"]),
            None if one["frames"] is None else one["frames"] / 1e6,
            one["hours"],
            _share(one["published"]["success"]),
            one["published"]["interval"] and ends_text(one["published"]["interval"]),
            one["published"]["measure"],
        )
        for one in facts
    ]
    shown = Table(f"{table.title}, beside the source", columns, cells)
    known = "its figures are not known to us" if table.paper is None else f"published: {table.paper}"
    lines = [f"source: {table.source}; {known.rstrip('.')}", *_whole_table(table, facts)]
    payload: dict[str, Any] = {"table": table.name, "rows": facts, "report": None}
    if not done:
        return [shown], lines, payload
    base = next((row.name for row, _ in done if row.key == table.baseline), None)
    folders = [str(item.run_dir) for _, item in done]
    wanted = ReportConfig(runs=folders, output=str(root / "report"), baseline=base)
    try:
        found = report(wanted, _known(table, done, remarks))
    except UserError as error:  # the runs are there all the same
        return [shown], [*lines, f"no report: {error}"], payload
    if found.payload["published"]:  # then the report has named the source
        del lines[0]
    return [found.tables[0], shown], [*found.lines, *lines], {**payload, "report": found.payload}


def _share(value: float | None) -> Share | None:
    return None if value is None else Share(value)


def _known(table: PublishedTable, done: Trained, remarks: tuple[str, ...]) -> Known:
    """Return what the report cannot find in the folders: the names in the source, and its numbers."""
    numbers = {
        row.name: Published(
            preset=row.preset,
            suite="",
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
        for row in table.rows
        if row.success is not None
    }
    return Known(table.title, {item.run_dir: row.name for row, item in done}, numbers, remarks)


def _whole_table(table: PublishedTable, facts: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line that says how long the table takes as published, at the speed of the runs that are complete."""
    known = [one for one in facts if one["frames_per_second_of_device"]]
    if not known:
        return []
    measured = {
        one["row"]: Speed(one["frames_per_second_of_device"], "", is_shared=(one["runs_on_device"] or 1) > 1)
        for one in known
    }
    together = max(one["runs_on_device"] or 1 for one in known)
    how = "one run at a time" if together == 1 else f"up to {together} runs at once on one device"
    rows = [replace(row, speed=measured.get(row.key)) for row in table.rows]
    seeds = table.seeds or 1
    time = estimate(rows, seeds, budget=1.0).text
    counted = "1 seed" if seeds == 1 else f"{seeds} seeds"
    return [f"at the speed of these runs, the whole table as published, {how}, {counted}: {time}"]


def beside(row: Row, items: Sequence[Item]) -> dict[str, Any]:
    """Return our means over the seeds of a row, and the published numbers."""
    needed: Fields = {"frames": int, "seconds": float}
    summaries = [read_json(item.run_dir / SUMMARY_FILE, "summary of a run", needed) for item in items]
    frames, seconds = (sum(each[name] for each in summaries) for name in ("frames", "seconds"))
    sharing = [each["runs_on_device"] for each in summaries if each.get("runs_on_device") is not None]
    # Runs that share a device have its whole speed together, so each takes its share of their time.
    busy = sum(each["seconds"] / (each.get("runs_on_device") or 1) for each in summaries)
    noiseless = [each["evaluation"]["mean_success"] for each in summaries if each.get("evaluation")]
    training = [each["success"] for each in summaries if each.get("success") is not None]
    return {
        "row": row.key,
        "name": row.name,
        "seeds": len(items),
        "training_success": fmean(training) if training else None,
        "noiseless_success": fmean(noiseless) if noiseless else None,
        "frames": round(frames / len(items)) if items else None,
        "hours": seconds / len(items) / HOUR if items else None,
        "frames_per_second": frames / seconds if seconds > 0 else None,
        "frames_per_second_of_device": frames / busy if busy > 0 else None,
        "runs_on_device": max(sharing, default=None),
        "published": {
            "success": row.success,
            "interval": None if row.interval is None else list(row.interval),
            "return": row.episode_return,
            "hours": row.hours,
            "measure": None if row.success is None else row.measure,
        },
    }
