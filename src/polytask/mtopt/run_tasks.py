"""The tasks of a run as data: `RUN_DIR/tasks.json`, which the labelling page and `polytask mtopt task` add to.

    {"format": 1, "slots": 24, "tasks": [{"name": ..., "skill": ..., "sentence": ...}, ...]}

The file appears when the run begins. Tasks are only ever appended, in one step, so any process may read it at any time.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from polytask.errors import UserError
from polytask.files import check_fields, make_folder, read_json, write_text
from polytask.files.folder_lock import one_at_a_time
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.task_table import SPARE, TaskTable

FILE, LOCK, STATE = "tasks.json", "tasks.lock", "run.json"
FORMAT = 1  # raised when the layout changes


def tasks_of(config: RunConfig) -> TaskTable:
    """Return the tasks of a run; before it begins, those of its world.

    Raises:
        UserError: If the file cannot be read.
    """
    own, spare = world_spec(config.world.kind).tasks, SPARE
    if config.run_dir is not None:  # else the run is new, and gets its folder later
        path = config.root / FILE
        if path.exists():
            return read(path)
        spare = 0 if (config.root / STATE).exists() else SPARE  # a run that began before runs had this file
    return TaskTable(own, len(own) + spare if config.task_slots is None or not spare else config.task_slots)


def begin(config: RunConfig) -> None:
    """Write the tasks of a new run."""
    root = config.root
    make_folder(root)
    with one_at_a_time(root / LOCK):
        if not (root / FILE).exists() and not (root / STATE).exists():
            _write(root, tasks_of(config))


def add(root: Path, info: TaskInfo, tasks: TaskTable) -> TaskTable:
    """Add a task to a run and return all its tasks.

    Args:
        root: Folder of the run.
        info: The task.
        tasks: Those of the run, if it has no file of them yet.

    Raises:
        UserError: If the task cannot be added.
    """
    make_folder(root)
    with one_at_a_time(root / LOCK):
        present = read(root / FILE) if (root / FILE).exists() else tasks
        changed = present.with_task(info)
        _write(root, changed)
    return changed


def read(path: Path) -> TaskTable:
    """Read a file of tasks.

    Raises:
        UserError: If it cannot be read.
    """
    state = read_json(path, "list of a run's tasks", {"format": int, "slots": int, "tasks": list})
    if state["format"] != FORMAT:
        raise UserError(f"'{path}' is not the list of a run's tasks (format {FORMAT})")
    rows = {str(number): row for number, row in enumerate(state["tasks"])}
    check_fields(rows, {key: {"name": str, "skill": str, "sentence": str} for key in rows}, path, "tasks.")
    try:
        infos = tuple(TaskInfo(row["name"], row["skill"], row["sentence"]) for row in state["tasks"])
        return TaskTable(infos, state["slots"])
    except UserError as error:
        raise UserError(f"'{path}' is damaged: {error}") from error


def _write(root: Path, tasks: TaskTable) -> None:
    state = {"format": FORMAT, "slots": tasks.slots, "tasks": [asdict(one) for one in tasks.infos]}
    write_text(root / FILE, json.dumps(state, indent=1))
