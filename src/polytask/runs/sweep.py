"""`polytask sweep`: train every preset of a Table with every seed, one after the other, skipping what is done.

Every run has a folder of its own, `<output>/<preset>[/<changes>]/seed-<n>`. A run whose summary says that it is complete
is skipped, one that was interrupted goes on from its checkpoint, so the same command can be given again at any time.
"""

from __future__ import annotations

import gc
import json
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from polytask.config.compose import compose
from polytask.config.presets import presets
from polytask.config.schema import SweepConfig, TrainConfig
from polytask.errors import UserError, suggest
from polytask.result import Result, Table, note
from polytask.runs.checkpoint import FILE_NAME
from polytask.runs.train import train

# What the sweep itself decides for every run.
RESERVED = ("preset", "seed", "run_dir", "checkpoint", "format")


@dataclass
class Item:
    """One run of a sweep."""

    preset: str
    seed: int
    run_dir: str
    status: str  # done, interrupted or new; after the sweep also failed or stopped
    success: float | None = None  # of the evaluation, or of the last episodes where there is none
    error: str | None = None


def sweep(config: SweepConfig, train: Callable[[TrainConfig], Result] = train) -> Result:
    """Run `polytask sweep`.

    Args:
        config: What to run.
        train: What runs one config.
    """
    items = plan(config)
    if config.dry_run:
        open_items = [item for item in items if item.status != "done"]
        lines = [shlex.join(["polytask", "train", *words_of(item, config)]) for item in open_items]
        return Result({"runs": [asdict(item) for item in items], "commands": lines}, lines=lines)
    for number, item in enumerate(items, start=1):
        if item.status != "done":
            note(f"run {number} of {len(items)}: {item.run_dir}")
            run(item, config, train)
        if item.status == "stopped":
            break
    rows = [(item.preset, item.seed, item.status, item.success, item.error) for item in items]
    shown = Table("sweep", ("preset", "seed", "status", "success", "error"), rows)
    is_whole = all(item.status == "done" for item in items)
    return Result({"runs": [asdict(item) for item in items]}, [shown], exit_code=int(not is_whole))


def plan(config: SweepConfig) -> list[Item]:
    """List the runs of a sweep, seed by seed, so that a whole Table with few seeds exists early."""
    if config.seeds < 1:
        raise UserError(f"seeds={config.seeds}: at least 1 is needed")
    changes = config.changes or []
    for word in changes:
        name = word.partition("=")[0]
        if name in RESERVED:
            raise UserError(f"'{name}' is set by the sweep for each run")
    names = select(config.presets or [])
    for name in names:
        compose(TrainConfig, [f"preset={name}", *changes])  # a mistake shows before hours of training
    folder = " ".join(changes).replace("/", "_")
    items = []
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        for name in names:
            directory = Path(config.output).expanduser() / name / folder / f"seed-{seed}"
            items.append(Item(name, seed, str(directory), *state_of(directory)))
    return items


def select(patterns: list[str]) -> list[str]:
    """Resolve names and patterns such as `mtbench/mt10_rand/*` to presets, in the order given and each once."""
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
    """Tell how far the run in a folder is, and its success if it is done."""
    try:
        summary = json.loads((directory / "summary.json").read_text())
    except (OSError, ValueError):
        summary = {}
    if summary.get("complete"):
        return "done", success_of(summary)
    return ("interrupted" if (directory / FILE_NAME).exists() else "new"), None


def success_of(summary: dict[str, Any]) -> float | None:
    """Take the success of the evaluation, or of the last episodes of training where there was none."""
    evaluation = summary.get("evaluation")
    success = summary.get("success") if evaluation is None else evaluation["mean_success"]
    return None if success is None else float(success)


def words_of(item: Item, config: SweepConfig) -> list[str]:
    """Write what follows `polytask train` for one run."""
    words = [f"preset={item.preset}", *(config.changes or []), f"seed={item.seed}", f"run_dir={item.run_dir}"]
    if item.status != "interrupted":
        return words
    return [*(word for word in words if not word.startswith("init_from=")), f"checkpoint={item.run_dir}"]


def run(item: Item, config: SweepConfig, train: Callable[[TrainConfig], Result]) -> None:
    """Train one item and note how it ended; a run that fails does not keep the others from being tried."""
    try:
        summary = train(compose(TrainConfig, words_of(item, config))).payload
    except (UserError, RuntimeError) as error:  # out of memory is a RuntimeError
        item.status, item.error = "failed", (str(error).strip().splitlines() or [type(error).__name__])[0]
        note(f"failed: {item.error}")
    else:
        item.status = "done" if summary["complete"] else "stopped"
        item.success = success_of(summary)
    gc.collect()  # the next run needs the memory of this one
