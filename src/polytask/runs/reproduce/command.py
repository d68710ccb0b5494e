"""`polytask reproduce`: run what is missing of a published table or figure, and show the published numbers too."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from polytask.config.launching import ReproduceConfig
from polytask.errors import UserError, suggest
from polytask.result import Result, Table, note
from polytask.runs.reproduce.changes import (
    check_changes,
    check_only_lists,
    check_rows_differ,
    for_tasks,
    other_than_published,
)
from polytask.runs.reproduce.compare import Trained, compare
from polytask.runs.reproduce.estimate import estimate, sources
from polytask.runs.reproduce.tables import PublishedTable, Row, names, read_table, stages
from polytask.runs.sweep.command import commands, conclude, train_all
from polytask.runs.sweep.grid import Setting, settings_of
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.plan import Item, plan
from polytask.settings import in_frames


def reproduce(config: ReproduceConfig) -> Result:
    """Run `polytask reproduce`."""
    if config.table is None:
        check_only_lists(config)
        return listing(config)
    changes = config.changes or []
    table = for_tasks(read_table(config.table), changes)
    rows = choose(table, config.rows)
    check_changes(changes, rows)
    root = Path(config.output or default_folder(config)).expanduser()
    # Check all rows before anything runs, with names as stand-ins for the folders that they start from.
    stand_ins = {row.key: row.key for row in rows}
    check_rows_differ({row.key: setting_of(row, config, stand_ins) for row in rows}, changes)
    if config.dry_run:
        return commands([item for _, item in planned(rows, config, root)])
    expected = estimate(rows, config.seeds, config.budget)
    time = f"all runs take {expected.text}" if expected.known else "nobody has measured how long the runs take"
    about = [f"{table.title}: {time}", *sources([expected])] if config.train else []
    for line in (*about, *other_than_published(changes)):
        note(line)
    trained, code = _train(rows, config, root) if config.train else (planned(rows, config, root), 0)
    compared = compare(table, rows, trained, root, remarks_on(config))
    return conclude([item for _, item in trained], config, root, code, compared)


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
    """Return the rows that match names or patterns, and all rows that those start from, one after the other.

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
    after = {row.key: row.after for row in table.rows}
    for key in tuple(wanted):
        start = after[key]
        while start is not None and start not in wanted:
            wanted.add(start)
            start = after[start]
    return [row for row in table.rows if row.key in wanted]


def setting_of(row: Row, config: ReproduceConfig, starts: dict[str, str], root: Path | None = None) -> Setting:
    """Return what a row trains. With a budget, all that counts frames of the run has its share of the published frames.

    Args:
        row: The row.
        config: The settings of the command.
        starts: Row -> folder of its runs, for rows that start from the networks of another.
        root: The folder of the table.

    Raises:
        UserError: If the row cannot have what the user changes.
    """
    words = [*config.plugin_words, f"preset={row.preset}", "video=false", *row.words]
    if row.after is not None:
        words.append(f"init_from={root or ''}/{starts[row.after]}/seed-{{seed}}")
    changes = config.changes or []
    try:
        if config.budget != 1.0:
            words.append(f"max_frames={row.frames}")
            (whole,) = settings_of([*words, *changes])
            shares = {key: max(1, round(config.budget * frames)) for key, frames in in_frames(whole.config).items()}
            words += [f"{key}={frames}" for key, frames in shares.items()]
        (setting,) = settings_of([*words, *changes])
    except UserError as error:  # other rows may have other networks and methods, which have other keys
        given = f" with {' '.join(changes)}" if changes else ""
        raise UserError(f"row '{row.key}'{given}: {error}") from error
    return Setting(setting.words, row.key, setting.config)


def _by_row(rows: Sequence[Row], items: Sequence[Item]) -> Trained:
    """Return the runs with their rows; the plan has all rows for each seed."""
    return [(rows[number % len(rows)], item) for number, item in enumerate(items)]


def _settings(stage: Sequence[Row], known: Trained, config: ReproduceConfig, root: Path) -> list[Setting]:
    """Return what the rows of a stage train, from the folders of the rows that are known already."""
    starts = {row.key: item.name.partition("/")[0] for row, item in known}
    return [setting_of(row, config, starts, root) for row in stage]


def _train(rows: Sequence[Row], config: ReproduceConfig, root: Path) -> tuple[Trained, int]:
    """Train what is missing of the rows, and then, seed by seed, of those that start from complete runs of them.

    Returns:
        The runs, and the exit code: 0, or that of the signal that stopped them.
    """
    trained: Trained = []
    for stage in stages(rows):
        begun = {(row.key, item.seed): item for row, item in trained}
        # The checkpoint of a run that was stopped, or that diverged, has networks that are not those of its row.
        held = {
            (row.key, seed): start
            for row in stage
            for seed in config.all_seeds
            if row.after is not None and (start := begun[row.after, seed]).state != "done"
        }
        items, code = train_all(_settings(stage, trained, config, root), config, root, held)
        trained += _by_row(stage, items)
        if code:
            return trained, code
        for item in items:
            needed = held.get((item.setting.label, item.seed))
            if needed is not None and item.state != "done":
                note(f"not trained: {item.name}: the run that it starts from, {needed.name}, is not complete")
    return trained, 0


def planned(rows: Sequence[Row], config: ReproduceConfig, root: Path) -> Trained:
    """Return all runs as they stand, without training any."""
    index, known = Index(root), list[tuple[Row, Item]]()
    for stage in stages(rows):
        known += _by_row(stage, plan(_settings(stage, known, config, root), config.all_seeds, root, index))
    return known
