"""The state of a run in its folder, beside the store: `run.json`, replaced in one step, and `metrics.jsonl`.

RUN_DIR/run.json         settings, the controller's state, the last evaluation
RUN_DIR/tasks.json       its tasks (`run_tasks`)
RUN_DIR/metrics.jsonl    one line for every finished job
RUN_DIR/learner.pt       the learner, to continue exactly
RUN_DIR/weights/         published versions
RUN_DIR/detectors/       success detectors, with their scores, and which of them is in use
RUN_DIR/lock             locked by the process that writes all this
RUN_DIR/shards/, index.sqlite    the episode store
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from polytask.errors import UserError, shown
from polytask.files import (
    Fields,
    JsonLines,
    LogRow,
    check_fields,
    exists,
    finite,
    read_json,
    read_json_lines,
    write_text,
)
from polytask.files.folder_lock import FolderLock
from polytask.mtopt import run_tasks
from polytask.mtopt.config import LabelConfig, RunConfig
from polytask.mtopt.config.world_specs import BINS, world_spec
from polytask.mtopt.roles import Evaluation
from polytask.mtopt.roles.evaluation import ChainResult, TaskResult
from polytask.mtopt.roles.orders import PHASES
from polytask.settings import check_values, fill

FILE_NAME = run_tasks.STATE
METRICS = "metrics.jsonl"
FORMAT = 1  # raised when the layout changes
# What other commands leave in their folders, and whose it is.
FOREIGN = {
    "config.yaml": "a run of `polytask train`",
    "checkpoint.pt": "a run of `polytask train`",
    "index.json": "a sweep or a data set",
    METRICS: f"the log of a run without its {FILE_NAME}",
}
_CONTROLLER: Fields = {
    "round": int,
    "phase": str,
    "issued": dict,
    "episodes": int,
    "updates": int,
    "updated": int,
    "seen": int,
    "passed": int | None,
    "early": int | None,
    "sources": dict,
}
_EVALUATION: Fields = {**get_type_hints(Evaluation), "tasks": list, "chains": list | None}
# Settings that cannot change within a run: episodes, buffers and networks would no longer fit together.
FIXED = (
    ("seed",),
    ("world", "kind"),
    ("world", "image_size"),
    ("world", "image_width"),
    ("world", "outcome_size"),
    ("world", "outcome_width"),
    ("world", "assisted"),
    ("world", "reach"),
    ("learner", "network"),
    ("trainer", "publish_every"),
)


class RunFolder:
    """Reads and writes the state of a run."""

    def __init__(self, root: str | Path) -> None:
        """Use a folder, which need not exist."""
        self.root = Path(root).expanduser()
        self.state: dict[str, Any] = {}
        self._writer: JsonLines | None = None
        self._lock = FolderLock(self.root)

    @property
    def path(self) -> Path:
        """Return the file of the state."""
        return self.root / FILE_NAME

    def read(self) -> dict[str, Any] | None:
        """Read the state; return None if there is no run.

        Raises:
            UserError: If the file cannot be read.
        """
        if not self.path.exists():
            return None
        state = read_json(self.path, "state of a run", {"format": int})
        if state["format"] != FORMAT:
            raise UserError(f"'{self.path}' is not the state of a run (format {FORMAT})")
        check_state(state, self.path)
        self.state = state
        return state

    def require(self) -> dict[str, Any]:
        """Read the state of a run that must exist.

        Raises:
            UserError: If there is no run.
        """
        state = self.read()
        if state is None:
            self.check_free()
            raise UserError(
                f"there is no run in '{self.root}'; start one with `polytask mtopt run run_dir={self.root}`"
            )
        return state

    def config(self) -> RunConfig:
        """Return the settings of a run that must exist, with its present folder.

        Settings that this version does not know are ignored, as in `polytask mtopt run`.

        Raises:
            UserError: If there is no run, or a setting cannot be used.
        """
        values, saved = OmegaConf.structured(RunConfig), with_present_names(self.require()["config"])
        try:
            fill(values, saved)
            config = OmegaConf.to_object(values)
            assert isinstance(config, RunConfig)
            config.run_dir = str(self.root)
            check_values(config)
            run_tasks.tasks_of(config).require(config.tasks)
        except (OmegaConfBaseException, UserError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"'{self.path}' holds settings that cannot be read: {reason}") from error
        return config

    def check_free(self) -> None:
        """Check that a new run may use the folder, unless it has a run already.

        What an interrupted start, `polytask mtopt task add` or the labelling page leave is no reason against it, nor
        are files that polytask does not write.

        Raises:
            UserError: If it contains what another command wrote: a run would overwrite its log.
        """
        if exists(self.path):
            return
        for name, what in FOREIGN.items():
            file = self.root / name
            if exists(file) and (name != METRICS or file.stat().st_size > 0):
                raise UserError(f"'{self.root}' contains {what}; name another run_dir")

    def lock(self) -> None:
        """Lock the run for this process, until `close` or the end of the process.

        Raises:
            BusyError: If another process has it.
        """
        self._lock.take()

    def check(self, config: RunConfig) -> None:
        """Compare settings with those of the run, if there is one.

        Raises:
            UserError: If a setting that must not change within a run differs, or the folder contains something else.
        """
        self.check_free()
        state, plain, slots = self.read(), asdict(config), run_tasks.tasks_of(config).slots
        if config.task_slots not in (None, slots):
            raise UserError(f"the run in '{self.root}' has task_slots={slots}, not {config.task_slots}")
        if state is None:
            return
        saved = asdict(self.config())  # with the defaults of settings that are newer than the run
        for path in FIXED:
            for name, old, new in _differences(_at(saved, path), _at(plain, path), ".".join(path)):
                line = f"the run in '{self.root}' has {name}={shown(old)}, not {shown(new)}; choose another run_dir"
                raise UserError(line)

    def begin(self, config: RunConfig, *, is_plan: bool = True) -> dict[str, Any] | None:
        """Lock the folder and begin or continue its run; return the run's state, None for a new run.

        Args:
            config: Settings.
            is_plan: Save them as those of the run; otherwise only if it has none yet.

        Raises:
            BusyError: If another process has the run.
            UserError: If a setting that must not change within a run differs, or the folder contains something else.
        """
        self.check_free()  # before the lock, which is a file in the folder
        self.lock()
        try:
            self.check(config)
        except UserError:
            self._lock.release()
            raise
        state = self.read()
        self.state = {"format": FORMAT, "jobs": 0, "controller": None, "evaluation": None, **(state or {})}
        if is_plan or state is None:
            self.state["config"] = asdict(config)
        run_tasks.begin(config)  # before the state: a run without this file is an older one
        self._write()
        kept = [] if state is None else read_json_lines(self.root / METRICS, until=int(state["jobs"]))
        self._writer = JsonLines(self.root / METRICS, kept)
        return state

    def save(self, record: LogRow, **state: Any) -> None:
        """Save a finished job: add its record to the log and update the state."""
        self.state.update(state)
        self.state["jobs"] += 1
        if self._writer is not None:
            self._writer.write({"iteration": self.state["jobs"], **record})
        self._write()

    def update(self, config: dict[str, Any]) -> None:
        """Replace the settings of a run."""
        self.state["config"] = config
        self._write()

    def records(self) -> list[LogRow]:
        """Read the records of all finished jobs."""
        return read_json_lines(self.root / METRICS)

    def close(self) -> None:
        """Close the log and release the lock."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._lock.release()

    def _write(self) -> None:
        write_text(self.path, json.dumps(finite(self.state), indent=1))


def check_state(state: Mapping[str, Any], path: Path) -> None:
    """Check the fields of the state of a run.

    Raises:
        UserError: If one is missing or cannot be right.
    """
    check_fields(state, {"config": dict, "jobs": int}, path)
    # A run has no controller until its first job is done, and no evaluation until its first evaluation.
    if state["jobs"] or state.get("controller") is not None:
        check_fields(state, {"controller": _CONTROLLER}, path)
        controller = state["controller"]
        for name, kind in (("issued", int), ("sources", str)):
            check_fields(controller[name], dict.fromkeys(controller[name], kind), path, f"controller.{name}.")
        if controller["phase"] not in PHASES:
            raise UserError(f"'{path}' is damaged: field 'controller.phase' must be one of {', '.join(PHASES)}")
    if state.get("evaluation") is not None:
        check_fields(state, {"evaluation": _EVALUATION}, path)
        for part, record in (("tasks", TaskResult), ("chains", ChainResult)):
            rows = {str(number): row for number, row in enumerate(state["evaluation"].get(part) or ())}
            hints = {name: _plain(hint) for name, hint in get_type_hints(record).items()}
            check_fields(rows, dict.fromkeys(rows, hints), path, f"evaluation.{part}.")


def _plain(hint: Any) -> Any:
    """Return the type of a field without the types of its entries, which a file does not show."""
    return dict | None if hint == dict[str, float] | None else hint


def saved_settings(config: RunConfig) -> dict[str, Any] | None:
    """Return the settings of the run in the configured folder; None if there is no run."""
    state = RunFolder(config.root).read() if config.run_dir is not None else None
    return None if state is None else with_present_names(state["config"])


def with_folder(config: RunConfig) -> RunConfig:
    """Return the settings with the folder of a new run, which is not made yet, if none is named."""
    if config.run_dir is not None:
        return config
    named = Path("runs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}-mtopt-seed{config.seed}"
    path, number = named, 1
    while path.exists():
        number += 1
        path = named.with_name(f"{named.name}-{number}")
    return replace(config, run_dir=str(path))


def label_settings(config: LabelConfig) -> dict[str, Any] | None:
    """Return the settings of the labelling page that follow from the run in its folder; None if there is no run.

    The page trains detectors as the run does, and turns uploads into the views that its world renders.
    """
    state = RunFolder(config.root).read() if config.run_dir is not None else None
    if state is None:
        return None
    saved = with_present_names(state["config"])
    spec = world_spec(_at(saved, ("world", "kind")) or BINS.name)
    sizes = {key: _at(saved, ("world", key)) for key in ("outcome_size", "outcome_width")}
    known: dict[str, Any] = {key: size for key, size in sizes.items() if size is not None}
    if spec.captions:  # else its episodes, which are imported, have any number of views
        known |= {"views": len(spec.captions), "captions": list(spec.captions)}
    return {"detector": saved.get("detector", {}), **known}


def with_present_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert settings that version 0.1 saved to the present names."""
    settings = dict(settings)
    if "store" in settings:
        settings["run_dir"] = settings.pop("store")
    world = settings.get("world")
    if isinstance(world, dict) and "num_worlds" in world:
        settings["world"] = {**world, "num_envs": world["num_worlds"]}
    return settings


def _differences(old: Any, new: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, old and new value of every setting that differs, also of those inside a table."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in new:
            yield from _differences(old.get(key), new[key], f"{name}.{key}")
    elif old != new:
        yield name, old, new


def _at(config: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return a nested setting."""
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
