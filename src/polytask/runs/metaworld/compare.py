"""Measure a policy in our worlds and in the original Meta-World, on the same goals: `polytask eval env=metaworld`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from polytask.config.schema import EvalConfig
from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions
from polytask.envs.render_progress import RenderProgress
from polytask.errors import UserError
from polytask.result import Result, Table, note
from polytask.runs.evaluate import (
    Evaluator,
    Goals,
    Outcome,
    about_policy,
    interval_text,
    run_episodes,
    summarize,
)
from polytask.runs.metaworld.worlds import MetaWorldWorlds
from polytask.runs.policy import demonstrations_of
from polytask.runs.setup import build_policy, check_noise, check_source, world_options
from polytask.statistics import bootstrap, mean

ROBOT = "sawyer"  # Meta-World's only one


def compare(config: EvalConfig) -> Result:
    """Run `polytask eval env=metaworld`."""
    check_source(config)
    check_noise(config)
    assert config.metaworld_python is not None  # the config was checked
    plan = resolve(EnvOptions(**world_options(config)))
    if plan.options.robot != ROBOT:
        raise UserError(f"Meta-World has only the robot {ROBOT}; this policy is for {plan.options.robot}")
    length = plan.options.episode_length
    assert length is not None
    workers = config.metaworld_workers or len(os.sched_getaffinity(0))
    with MetaWorldWorlds(
        config.metaworld_python, config.task_names, length, workers=workers, device=plan.device
    ) as worlds:
        note(f"drawing Meta-World's goals, {config.episodes} per task")
        worlds.open(config.episodes, config.seed)
        ours = play_ours(config, worlds.goals)
        theirs = play_theirs(config, worlds)
        payload = {
            "policy": config.policy or config.checkpoint,
            "episode_length": length,
            "seed": config.seed,
            "explore": config.explore,
            "demonstrations": demonstrations_of(config),
            "metaworld": worlds.versions,
            **contrast(ours, theirs, worlds.spec.tasks),
        }
    about = about_policy(config, payload["demonstrations"])
    title = f"{payload['policy']}: {config.episodes} episodes of {length} steps per task, Meta-World's goals of seed"
    return Result(payload, [comparison_table(f"{title} {config.seed}{about}", payload)])


def play_ours(config: EvalConfig, goals: Goals) -> Outcome:
    """Play the policy in our worlds, with one goal each, and with the dense reward, which is Meta-World's."""
    evaluator = Evaluator(replace(config, goals="fixed", reward="dense"), config.episodes, goals)
    policy = build_policy(config, evaluator.env, explore=config.explore)
    with RenderProgress("evaluating", evaluator.env.spec.episode_length) as progress:
        outcome = evaluator.play(policy, [progress.advance])
    evaluator.close()
    return outcome


def play_theirs(config: EvalConfig, worlds: MetaWorldWorlds) -> Outcome:
    """Play the policy in Meta-World, one goal of every task after the other. The worlds are at their first goal."""
    policy = build_policy(config, worlds, explore=config.explore)
    with RenderProgress("playing in Meta-World", config.episodes * worlds.spec.episode_length) as progress:
        played = [run_episodes(worlds, policy, [progress.advance]) for _ in range(config.episodes)]
    return Outcome(
        np.concatenate([one.success for one in played]),
        np.concatenate([one.success_at_end for one in played]),
        np.concatenate([one.returns for one in played]),
    )


def contrast(ours: Outcome, theirs: Outcome, tasks: tuple[str, ...]) -> dict[str, Any]:
    """Summarize both sides and their difference. Its interval is one of pairs, since the goals are the same."""
    here, there = summarize(ours, tasks), summarize(theirs, tasks)
    gaps = ours.success - theirs.success  # (E, K)
    rows = {}
    for index, task in enumerate(tasks):
        gap = gaps[:, index : index + 1]
        rows[task] = {
            "ours": {**here["tasks"][task], "success_by_goal": ours.success[:, index].tolist()},
            "original": {**there["tasks"][task], "success_by_goal": theirs.success[:, index].tolist()},
            "difference": float(gap.mean()),
            "interval": list(bootstrap(gap)),
        }
    return {
        "episodes": len(gaps),
        "ours": _means(here),
        "original": _means(there),
        "difference": float(mean(gaps)),
        "interval": list(bootstrap(gaps)),
        "tasks": rows,
    }


def _means(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name not in ("tasks", "episodes")}


def comparison_table(title: str, payload: dict[str, Any]) -> Table:
    """Lay out a comparison, with one row per task and the means in the last row."""
    rows = [
        (task, *_cells(one["ours"]), *_cells(one["original"]), one["difference"], interval_text(one["interval"]))
        for task, one in payload["tasks"].items()
    ]
    here, there = (_cells(payload[side], "mean_") for side in ("ours", "original"))
    rows.append(("mean", *here, *there, payload["difference"], interval_text(payload["interval"])))
    interval = "95 % interval"
    return Table(title, ("task", "ours", interval, "Meta-World", interval, "difference", interval), rows)


def _cells(side: dict[str, Any], prefix: str = "") -> tuple[float, str]:
    return side[f"{prefix}success"], interval_text(side[f"{prefix}interval"])
