"""Evaluations of parkour: episodes on all levels, and tables per terrain and per level, with flat ground apart.

Flat ground is where a robot learns to walk, not one of the twenty terrains, so no mean over terrains contains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.parkour.layout import spread_levels
from polytask.envs.parkour.terrain import NUM_LEVELS
from polytask.envs.suites import FLAT, counted
from polytask.result import Table
from polytask.statistics import Array, mean, score_interval

LEVELS = range(NUM_LEVELS)
# What `levels` means for the tiles that have the numbers 0 to 9.
NUMBERED = {
    "hard": ("level", "per level"),
    "easy": ("variant", "per variant of the lowest level"),
    "flat": ("variant", "per variant, all of them flat ground"),
}
ENDS = ("falls", "stopped", "steps")  # how episodes end: the shares that fell and neither fell nor arrived, mean length


def play_all_levels(env: MultiTaskEnv) -> None:
    """Spread the worlds of each task over all levels, if their number does not do so, and start new episodes."""
    episodes = env.spec.envs_per_task[0]
    if env.config.domain.name != "parkour" or env.config.options.level is not None or episodes % NUM_LEVELS == 0:
        return
    state = env.state_dict()
    levels = torch.cat([spread_levels(episodes, task) for task in range(env.spec.num_tasks)])
    counts = [group.batch.num_worlds for group in env.groups]  # their worlds are consecutive
    for part, level in zip(state["groups"], levels.split(counts), strict=True):
        for name in ("level", "own_level"):
            part["episode"][name].copy_(level)
    env.load_state_dict(state)
    env.reset()


def terrain_summary(
    success: Array, success_at_end: Array, metrics: Mapping[str, Array], tasks: Sequence[str], tiles: str
) -> dict[str, Any]:
    """Summarize E episodes of each of K parkour tasks.

    Args:
        success: Progress. (E, K)
        success_at_end: Whether all waypoints were reached. (E, K)
        metrics: `falls`, `level` and `steps`. (E, K) each
        tasks: Names of the tasks.
        tiles: Which tiles they have, a key of `NUMBERED`.
    """
    falls, arrived = metrics["falls"], np.asarray(success_at_end, dtype=float)
    stopped = 1.0 - np.maximum(falls, arrived)  # ended by the time limit, or by a simulation that diverged
    ends = {"falls": falls, "stopped": stopped, "steps": metrics["steps"]}
    arrays = {"progress": success, "all_waypoints": arrived, **ends}
    level = metrics["level"].round().astype(int)
    terrains = counted(tasks)

    def over(columns: list[int]) -> dict[str, Any]:
        chosen = {name: array[:, columns] for name, array in arrays.items()}
        return {
            **{name: float(mean(array)) for name, array in chosen.items()},
            "interval": list(score_interval(chosen["progress"])),
        }

    def on(index: int, columns: list[int]) -> dict[str, Any]:
        here = level[:, columns] == index
        found = {name: float(array[:, columns][here].mean()) for name, array in arrays.items() if here.any()}
        return {**found, "episodes": int(here.sum())}

    return {
        "tiles": tiles,
        "terrains": {"tasks": len(terrains), **over(terrains)},
        "flat": over([list(tasks).index(FLAT)]) if FLAT in tasks else None,
        "levels": {str(index): on(index, terrains) for index in LEVELS},
        **{name: dict(zip(tasks, array.mean(axis=0).tolist(), strict=True)) for name, array in ends.items()},
        "task_levels": {
            task: [_mean_where(success[:, index], level[:, index] == one) for one in LEVELS]
            for index, task in enumerate(tasks)
        },
    }


def _mean_where(values: Array, mask: Any) -> float | None:
    return float(np.mean(values[mask])) if mask.any() else None


def terrain_tables(title: str, summary: Mapping[str, Any]) -> list[Table]:
    """Lay out a summary as tables: per terrain, per level, and the progress of each terrain on each level."""
    parkour = summary["parkour"]
    number, which = NUMBERED[parkour["tiles"]]

    def row(name: str, one: Mapping[str, Any]) -> tuple[Any, ...]:
        low, high = one["interval"]
        return name, one["progress"], f"{low:.2f} to {high:.2f}", one["all_waypoints"], *(one[end] for end in ENDS)

    rows = []
    for task, one in summary["tasks"].items():
        if task != FLAT:
            known = {"progress": one["success"], "all_waypoints": one["success_at_end"], "interval": one["interval"]}
            rows.append(row(task, {**known, **{end: parkour[end][task] for end in ENDS}}))
    if rows:
        rows.append(row(f"mean of {parkour['terrains']['tasks']} terrains", parkour["terrains"]))
    if parkour["flat"] is not None:
        rows.append(row("flat, apart", parkour["flat"]))
    columns = ("terrain", "progress", "95 % interval", "all waypoints", *ENDS)
    by_level = [
        (index, one.get("progress"), one.get("all_waypoints"), *(one.get(end) for end in ENDS), one["episodes"])
        for index, one in parkour["levels"].items()
    ]
    of_each = [(task, *levels) for task, levels in parkour["task_levels"].items()]
    return [
        Table(title, columns, rows),
        Table(f"{which}, without flat", (number, "progress", "all waypoints", *ENDS, "episodes"), by_level),
        Table(f"progress {which}", ("terrain", *map(str, LEVELS)), of_each),
    ]
