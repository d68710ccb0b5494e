"""`polytask mtopt task`: the tasks of a run as data that people list, add and let the run learn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from polytask.errors import UserError, shown
from polytask.files import can_read
from polytask.mtopt.config import LabelConfig, RunConfig
from polytask.mtopt.config.commands import TaskConfig
from polytask.mtopt.config.world_specs import ROBOT, WorldSpec, world_spec
from polytask.mtopt.label.server import NEEDS
from polytask.mtopt.records import Label, TaskInfo
from polytask.mtopt.roles.collector import skills_of
from polytask.mtopt.run_tasks import add as add_task
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.base import restored_controller
from polytask.mtopt.runtime.checks import needs_lid
from polytask.mtopt.runtime.folder import RunFolder, label_settings
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.store.store import PERSON
from polytask.mtopt.task_table import check_task
from polytask.result import Result, Table
from polytask.settings import check_values


def task(config: TaskConfig) -> Result:
    """Run `polytask mtopt task`."""
    check_values(config)
    if config.action == "list":
        return _list(config)
    if config.name is None:
        raise UserError(f"name the task: polytask mtopt task {config.action} run_dir={config.run_dir} name=NAME")
    return _add(config, config.name) if config.action == "add" else _learn(config, config.name)


def _run_of(config: TaskConfig) -> RunConfig:
    """Return the settings of the run; of a folder without a run, those of a new one."""
    folder = RunFolder(config.root)
    if folder.read() is not None:
        return folder.config()
    folder.check_free()
    run = RunConfig(run_dir=config.run_dir)
    run.world.kind = world_spec(config.world).name
    return run


def _list(config: TaskConfig) -> Result:
    """List the tasks of a run."""
    run = _run_of(config)
    tasks, spec = tasks_of(run), world_spec(run.world.kind)
    rows = [
        {
            **asdict(info),
            "place": place,
            "learned": info.name in run.learned,
            "has_truth": info.name in spec.graded,
        }
        for place, info in enumerate(tasks.infos)
    ]
    columns = ("task", "skill", "learned", "truth", "success")
    table = [
        (one["name"], one["skill"], _word(one["learned"]), _word(one["has_truth"]), one["sentence"]) for one in rows
    ]
    lines = [f"{len(tasks)} of {tasks.slots} places are taken; world {spec.name}, run {config.run_dir}"]
    return Result({"tasks": rows, "slots": tasks.slots, "world": spec.name}, [Table("tasks", columns, table)], lines)


def _word(value: object) -> str:
    return "yes" if value else "no"


def _add(config: TaskConfig, name: str) -> Result:
    """Add a task to a run, with its examples."""
    if config.skill is None or config.sentence is None:
        raise UserError("a new task needs a skill and a sentence: skill=wipe sentence='The table is clean.'")
    info, run = TaskInfo(name, config.skill, config.sentence), _run_of(config)
    check_task(info)
    spec = world_spec(run.world.kind)
    _check_skill(info.skill, spec)
    pictures = [(_picture(path), value) for value in (True, False) for path in _paths(config, value)]
    tasks = add_task(run.root, info, tasks_of(run))
    _store_examples(config, name, pictures)
    lines = [f"task {name} added to {config.run_dir}: {len(tasks)} of {tasks.slots} places are taken"]
    if info.name not in spec.graded:
        lines.append("nothing knows its truth: its success is what people label")
    lines += [f"next: label successes and failures: polytask label run_dir={config.run_dir} tasks=[{name}]"]
    return Result({"task": asdict(info), "place": tasks.index(name), "examples": len(pictures)}, [], lines)


def _paths(config: TaskConfig, value: bool) -> Sequence[str]:
    return config.success if value else config.failure


def _picture(path: str) -> bytes:
    """Read a picture, and check that it is one before anything is written.

    Raises:
        UserError: If it is none.
    """
    if any(find_spec(name) is None for name in NEEDS):
        raise UserError("examples need an extra: pip install 'polytask[label]'")
    from polytask.mtopt.label.pictures import UploadLimits, decode

    file, limits = Path(path).expanduser(), LabelConfig()
    with can_read(file):
        data = file.read_bytes()
    try:
        decode(data, UploadLimits(limits.max_upload_bytes, limits.max_upload_pixels))
    except UserError as error:
        raise UserError(f"'{path}': {error}") from error
    return data


def _store_examples(config: TaskConfig, name: str, pictures: Sequence[tuple[bytes, bool]]) -> None:
    """Store pictures as a person's examples of a task."""
    if not pictures:
        return
    from polytask.mtopt.label.uploads import Uploads

    page = LabelConfig(run_dir=config.run_dir)
    known = label_settings(page) or {}
    page = replace(page, **{key: known[key] for key in ("views", "outcome_size", "outcome_width") if key in known})
    with closing(EpisodeStore(config.root)) as store, closing(Uploads(store, page)) as uploads:
        labels = [Label(uploads.add(name, data), name, float(value), PERSON) for data, value in pictures]
        store.add_labels(labels)


def _check_skill(skill: str, spec: WorldSpec) -> None:
    """Check that a world can start a skill. Where nothing is simulated, the episodes are imported: any skill goes.

    Raises:
        UserError: If it cannot, so that the task would take a place in vain.
    """
    if spec.build is not None and skill not in spec.skills:
        line = f"skill={shown(skill)} is not valid; world '{spec.name}' has {', '.join(spec.skills)}"
        raise UserError(f"{line}; in a run of world={ROBOT.name}, whose episodes are imported, any skill goes")


def _learn(config: TaskConfig, name: str) -> Result:
    """Let a run learn a task from now on: later rounds collect, label and train it, too."""
    folder = RunFolder(config.root)
    folder.require()
    folder.lock()
    with closing(folder):
        run = folder.config()
        tasks = tasks_of(run)
        tasks.require([name])
        run.tasks = list(dict.fromkeys((*run.learned, name)))
        spec = world_spec(run.world.kind)
        if spec.build is not None:
            skills_of(run.tasks, tasks, spec)  # refuses a task that the world cannot start
        state = folder.require()
        world = {**state["config"]["world"], "lid": run.world.lid or needs_lid(run.tasks, tasks)}
        folder.update({**state["config"], "tasks": run.tasks, "world": world})
        is_done = restored_controller(run, state).is_done
    rounds = f" controller.rounds={run.controller.rounds + 1}" if is_done else ""
    lines = [
        f"learned from now on: {', '.join(run.tasks)}",
        f"next: polytask mtopt run run_dir={config.run_dir}{rounds}",
    ]
    return Result({"tasks": run.tasks, "run_dir": config.run_dir}, [], lines)
