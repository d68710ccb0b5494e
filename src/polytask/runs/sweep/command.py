"""`polytask sweep`: train a grid of settings with several seeds, several runs at once, and compare them.

Every run has its own folder, `<output>/<number>-<values>/seed-<n>`, and its own process. A run that is complete
according to its summary is skipped, and an interrupted one continues from its checkpoint, so the same command can be
repeated at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from polytask.config.launching import LaunchConfig, SweepConfig
from polytask.config.schema import ReportConfig
from polytask.errors import UserError
from polytask.files import exists, make_folder
from polytask.files.folder_lock import FolderLock
from polytask.result import Result, Table, note
from polytask.runs.file_names import INDEX_FILE
from polytask.runs.report import report
from polytask.runs.sweep.grid import Setting, settings_of
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.plan import Item, plan
from polytask.runs.sweep.pool import failure, run_all
from polytask.runs.sweep.slots import check_start, launcher_of, slots_of

Compared = tuple[list[Table], list[str], dict[str, Any]]  # tables, lines and JSON of a report


def sweep(config: SweepConfig) -> Result:
    """Run `polytask sweep`."""
    if not config.grid:
        raise UserError("name what to train: keys of `polytask train`, such as grads=mean,pcgrad, or preset=NAME")
    settings = settings_of([*config.plugin_words, *config.grid])
    root = Path(config.output).expanduser()
    if config.dry_run:
        return commands(plan(settings, config.all_seeds, root, Index(root)))
    if config.train:
        items, code = train_all(settings, config, root)
    else:
        items, code = plan(settings, config.all_seeds, root, Index(root)), 0
    return conclude(items, config, root, code, _compare(items))


def train_all(
    settings: Sequence[Setting],
    config: LaunchConfig,
    root: Path,
    held: Collection[tuple[str, int]] = (),
) -> tuple[list[Item], int]:
    """Train all settings with all seeds in a folder.

    Args:
        settings: The settings.
        config: The settings of the command.
        root: The folder.
        held: Label and seed of runs that are not trained now, and stay as they are.

    Returns:
        The runs, and the exit code: 0, or that of the signal that stopped them.

    Raises:
        UserError: If a setting cannot run here, or another sweep uses the folder. Nothing was started then.
    """
    is_new = not exists(root / INDEX_FILE)
    if is_new:
        check_start(settings, config)  # first, so that a mistake leaves no folder behind
    make_folder(root)
    lock = FolderLock(root)
    lock.take()
    try:
        index = Index(root)
        items = plan(settings, config.all_seeds, root, index)
        chosen = [item for item in items if item.state == "done" or (item.setting.label, item.seed) not in held]
        left = [item for item in chosen if item.state != "done"]
        if not is_new:  # complete runs need nothing of this machine, not even their device
            check_start([one for one in settings if any(item.setting is one for item in left)], config)

        def changed(*some: Item) -> None:
            for item in some:
                index.record(item.name, item.facts())
            index.write()

        changed(*items)
        done = len(chosen) - len(left)
        note(f"{len(items)} runs of {len(settings)} settings in '{root}'" + (f", {done} done" if done else ""))
        if not left:
            return items, 0
        launcher = launcher_of(config, root)
        try:
            return items, run_all(chosen, launcher, slots_of(config, len(left)), changed)
        finally:
            launcher.close()
    finally:
        lock.release()


def commands(items: Sequence[Item]) -> Result:
    """Return the commands of the runs that are not complete, for `dry_run=true`."""
    lines = [item.command for item in items if item.state != "done"]
    return Result({"runs": [item.facts() for item in items], "commands": lines}, lines=lines)


def conclude(items: Sequence[Item], config: LaunchConfig, root: Path, code: int, compared: Compared) -> Result:
    """Return the result of a sweep: the comparison, then one line for every run that failed, and the exit code."""
    tables, lines, payload = compared
    failed = [item for item in items if item.state == "failed"]
    left = len(items) - len(failed) - sum(item.state == "done" for item in items)
    ends = [failure(item) for item in failed]
    if left:
        how = "the same command continues them" if config.train else "the command without train=false trains them"
        ends.append(f"{left} of {len(items)} runs are not complete; {how}")
    facts = {"output": str(root), "runs": [item.facts() for item in items], **payload}
    return Result(facts, tables, [*lines, *ends], exit_code=code or (2 if failed else 0))


def _compare(items: Sequence[Item]) -> Compared:
    """Return the report on the complete runs: tables, lines and payload."""
    runs = [str(item.run_dir) for item in items if item.state == "done"]
    if not runs:
        return [], [], {"report": None}
    try:
        compared = report(ReportConfig(runs=runs))
    except UserError as error:  # the runs are there all the same
        return [], [f"no report: {error}"], {"report": None}
    return compared.tables, compared.lines, {"report": compared.payload}
