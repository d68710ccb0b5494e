"""A table with the source's numbers beside those of our complete runs, and the report on these runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polytask.config.schema import ReportConfig
from polytask.errors import UserError
from polytask.files import Fields, read_json
from polytask.result import Result, Share, Table
from polytask.runs.file_names import SUMMARY_FILE
from polytask.runs.report import Known, report
from polytask.runs.report.published import published_row
from polytask.runs.report.tables import ends_text
from polytask.runs.reproduce.estimate import HOUR, estimate
from polytask.runs.reproduce.tables import PublishedTable, Row, Speed
from polytask.runs.sweep.command import Compared
from polytask.runs.sweep.plan import Item

Trained = list[tuple[Row, Item]]


def compare(
    table: PublishedTable, rows: Sequence[Row], trained: Trained, root: Path, remarks: tuple[str, ...] = ()
) -> Compared:
    """Return the report on the complete runs, and a table of all rows with the published numbers beside ours.

    Args:
        table: The table.
        rows: Its rows to show.
        trained: The runs of these rows.
        root: The folder of the table.
        remarks: Lines about all runs.
    """
    done = [(row, item) for row, item in trained if item.state == "done"]
    found, problems = _reported(table, done, root, remarks)
    scores = {} if found is None else found.payload["settings"]
    facts = [beside(row, [item for other, item in done if other is row], scores.get(row.name, {})) for row in rows]
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
    lines = [source_line(table), *whole_table(table, facts)]
    payload: dict[str, Any] = {"table": table.name, "rows": facts, "report": None}
    if found is None:
        return [shown], [*lines, *problems], payload
    if found.payload["published"]:  # then the report has named the source
        del lines[0]
    return [found.tables[0], shown], [*found.lines, *lines], {**payload, "report": found.payload}


def source_line(table: PublishedTable) -> str:
    """Return the line that says where a table is from, and what its published figures are or why none are shown."""
    known = "its figures are not known to us"
    if table.is_ours:
        return f"source: {table.source}"
    if table.paper is not None:
        known = f"published: {table.paper.rstrip('.')}"
    elif table.is_for_other_tasks:
        known = "its figures are left out, because they are of other tasks"
    return f"source: {table.source}; {known}"


def _reported(
    table: PublishedTable, done: Trained, root: Path, remarks: tuple[str, ...]
) -> tuple[Result | None, list[str]]:
    """Return the report on the complete runs, or the line that says why there is none, if there are such runs."""
    if not done:
        return None, []
    base = next((row.name for row, _ in done if row.key == table.baseline), None)
    folders = [str(item.run_dir) for _, item in done]
    wanted = ReportConfig(runs=folders, output=str(root / "report"), baseline=base)
    try:
        return report(wanted, _known(table, done, remarks)), []
    except UserError as error:  # the runs are there all the same
        return None, [f"no report: {error}"]


def _mean(scores: Mapping[str, Any], measure: str) -> float | None:
    return scores[measure]["mean"] if measure in scores else None


def _share(value: float | None) -> Share | None:
    return None if value is None else Share(value)


def _known(table: PublishedTable, done: Trained, remarks: tuple[str, ...]) -> Known:
    """Return what the report cannot find in the folders: the names in the source, and its numbers."""
    numbers = {row.name: one for row in table.rows if (one := published_row(table, row)) is not None}
    return Known(table.title, {item.run_dir: row.name for row, item in done}, numbers, remarks)


def whole_table(table: PublishedTable, facts: Sequence[dict[str, Any]]) -> list[str]:
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


def beside(row: Row, items: Sequence[Item], scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return our means over the seeds of a row, and the published numbers.

    Args:
        row: The row.
        items: Its complete runs.
        scores: What the report says about them.
    """
    needed: Fields = {"frames": int, "seconds": float}
    summaries = [read_json(item.run_dir / SUMMARY_FILE, "summary of a run", needed) for item in items]
    frames, seconds = (sum(each[name] for each in summaries) for name in ("frames", "seconds"))
    sharing = [each["runs_on_device"] for each in summaries if each.get("runs_on_device") is not None]
    # Runs that share a device have its whole speed together, so each takes its share of their time.
    busy = sum(each["seconds"] / (each.get("runs_on_device") or 1) for each in summaries)
    return {
        "row": row.key,
        "name": row.name,
        "seeds": len(items),
        "training_success": _mean(scores, "training"),
        "noiseless_success": _mean(scores, "noiseless"),
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
