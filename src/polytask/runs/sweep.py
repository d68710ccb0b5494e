"""`polytask sweep`: train several presets with several seeds, one run after the other.

Every run has its own folder, `<output>/<preset>[/<changes>]/seed-<n>`. A run that is complete according to its summary
is skipped. An interrupted run continues from its checkpoint. So the same command can be repeated at any time.
"""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from polytask.config.compose import compose
from polytask.config.presets import presets
from polytask.config.schema import SweepConfig, TrainConfig
from polytask.envs.tasks import TASKS
from polytask.errors import UserError, require_known, suggest
from polytask.files import Fields, check_fields, exists, make_folder, read_json
from polytask.result import Result, Table, note
from polytask.runs.file_names import CHECKPOINT_FILE, SUMMARY_FILE
from polytask.runs.train import train
from polytask.settings import check_values

SUMMARY_FIELDS: Fields = {"complete": bool, "success": float | None, "evaluation": dict | None}
# Keys that the sweep itself sets for every run.
RESERVED = ("preset", "seed", "run_dir", "checkpoint", "format")


@dataclass
class Item:
    """One run of a sweep."""

    preset: str
    seed: int
    run_dir: str
    status: str  # done, interrupted or new; after the sweep also failed or stopped
    success: float | None = None  # of the evaluation, or of the last training episodes if there was none
    error: str | None = None


def sweep(config: SweepConfig, train: Callable[[TrainConfig], Result] = train) -> Result:
    """Run `polytask sweep`.

    Args:
        config: The settings of the sweep.
        train: The function that runs one config.
    """
    items = plan(config)
    if config.dry_run:
        open_items = [item for item in items if item.status != "done"]
        lines = [shlex.join(["polytask", "train", *words_of(item, config)]) for item in open_items]
        return Result({"runs": [asdict(item) for item in items], "commands": lines}, lines=lines)
    make_folder(Path(config.output).expanduser())  # finds a read-only folder before hours of training
    code = 0
    for number, item in enumerate(items, start=1):
        if item.status != "done":
            note(f"run {number} of {len(items)}: {item.run_dir}")
            code = run(item, config, train)
        if item.status == "stopped":
            break
    rows = [(item.preset, item.seed, item.status, item.success, item.error) for item in items]
    shown = Table("sweep", ("preset", "seed", "status", "success", "error"), rows)
    failed = [item for item in items if item.status == "failed"]
    if failed and not code:
        note(f"polytask: {len(failed)} of {len(items)} runs failed; the first: {failed[0].error}")
        code = 2
    return Result({"runs": [asdict(item) for item in items]}, [shown], exit_code=code)


def plan(config: SweepConfig) -> list[Item]:
    """Return the runs of a sweep, seed by seed, so that all presets have results for the first seeds early."""
    check_values(config)
    changes = config.changes or []
    for word in changes:
        name = word.partition("=")[0]
        if name in RESERVED:
            raise UserError(f"'{name}' cannot be given: the sweep sets it for each run")
    names = select(config.presets or [])
    for name in names:
        for task in compose(TrainConfig, [f"preset={name}", *changes]).task_names:  # finds mistakes early
            require_known("task", task, TASKS)
    folder = " ".join(changes).replace("/", "_")
    items = []
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        for name in names:
            directory = Path(config.output).expanduser() / name / folder / f"seed-{seed}"
            items.append(Item(name, seed, str(directory), *state_of(directory)))
    return items


def select(patterns: list[str]) -> list[str]:
    """Return the presets that match names or patterns such as `mtbench/mt10_rand/*`, in the given order, each once."""
    if not patterns:
        raise UserError("name presets: preset=A,B or preset='mtbench/mt10_rand/*' (polytask list presets)")
    known = list(presets())
    chosen: list[str] = []
    for pattern in patterns:
        found = [name for name in known if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            raise UserError(f"unknown preset '{pattern}'; {suggest(pattern, known)}")
        chosen += [name for name in found if name not in chosen]
    return chosen


def state_of(directory: Path) -> tuple[str, float | None]:
    """Return the status of the run in a folder, and its success if it is done."""
    path = directory / SUMMARY_FILE
    try:
        summary = read_json(path, "summary of a run", SUMMARY_FIELDS) if exists(path) else {}
        if summary.get("evaluation") is not None:
            check_fields(summary, {"evaluation": {"mean_success": float}}, path)
    except UserError as error:
        note(f"{error}; the run counts as not done")
        summary = {}
    if summary.get("complete"):
        return "done", success_of(summary)
    return ("interrupted" if (directory / CHECKPOINT_FILE).exists() else "new"), None


def success_of(summary: dict[str, Any]) -> float | None:
    """Return the success of the evaluation, or of the last training episodes if there was no evaluation."""
    evaluation = summary.get("evaluation")
    success = summary.get("success") if evaluation is None else evaluation["mean_success"]
    return None if success is None else float(success)


def words_of(item: Item, config: SweepConfig) -> list[str]:
    """Return the words after `polytask train` for one run."""
    words = [f"preset={item.preset}", *(config.changes or []), f"seed={item.seed}", f"run_dir={item.run_dir}"]
    if item.status != "interrupted":
        return words
    return [*(word for word in words if not word.startswith("init_from=")), f"checkpoint={item.run_dir}"]


def run(item: Item, config: SweepConfig, train: Callable[[TrainConfig], Result]) -> int:
    """Train one item, store how it ended, and return its exit code. If it fails, the sweep continues with the next."""
    code = 0
    try:
        result = train(compose(TrainConfig, words_of(item, config)))
    except (UserError, RuntimeError) as error:  # out of memory is a RuntimeError
        item.status, item.error = "failed", (str(error).strip().splitlines() or [type(error).__name__])[0]
        note(f"failed: {item.error}")
    else:
        item.status = "done" if result.payload["complete"] else "stopped"
        item.success, code = success_of(result.payload), result.exit_code
    gc.collect()  # free the memory for the next run
    return code
