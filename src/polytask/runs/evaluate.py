"""Measure success and return of a policy per task: one episode per world, fixed seeds, noise only with `explore`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from polytask.config.schema import BOTH, EvalConfig, PolicyConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import BODIES, TILES, TuningOptions, WorldOptions
from polytask.envs.render_progress import RenderProgress
from polytask.envs.suites import counted
from polytask.files import Fields, check_fields
from polytask.result import Result, Table
from polytask.runs.checkpoint import load_to_act, locate
from polytask.runs.parkour_eval import play_all_levels, terrain_summary, terrain_tables
from polytask.runs.policy import demonstrations_of, policy_file, saved_settings
from polytask.runs.setup import Policy, build_env, build_policy, check_noise, check_source
from polytask.settings import MAX_SEED
from polytask.statistics import Array, iqm, mean, score_interval
from polytask.types import VecEnv

# Added to the seed, so that evaluation and training have different goals.
SEED_OFFSET = 1_000_003
# The goals of each task (N, R). A run with `goals=fixed` is evaluated on those of its training, and on others.
Goals = Mapping[str, Tensor]
TRAINING_GOALS, NEW_GOALS = ", goals of training", ", new goals"


class ScoredEnv(VecEnv, Protocol):
    """An environment that tells how well each world does."""

    @property
    def score(self) -> Tensor:
        """Score after the last step: 1 for success, else 0; in parkour the progress. (N,)"""
        ...


@dataclass(frozen=True)
class Outcome:
    """The results of E episodes of each of K tasks."""

    success: Array  # (E, K) highest score of any step: 1 for success, else 0; in parkour the progress
    success_at_end: Array  # (E, K) success at the last step
    returns: Array  # (E, K) sum of rewards
    # (E, K) each: `steps`, the length of the episodes, and the domain's metrics
    metrics: Mapping[str, Array] = field(default_factory=dict)


@torch.no_grad()
def run_episodes(
    env: ScoredEnv,
    policy: Policy,
    watchers: Sequence[Callable[[], None]] = (),
    read: Callable[[], dict[str, Tensor]] = dict,
) -> Outcome:
    """Run one episode in every world. All worlds must be at the start of an episode.

    Args:
        env: The environment.
        policy: The policy.
        watchers: Functions to call before each step: they film the worlds or show the progress.
        read: Returns metrics (N,) of the episodes after a step. Those of their last steps are kept.
    """
    metrics: dict[str, Tensor] = {}
    shape = (env.spec.num_envs,)
    going = torch.ones(shape, dtype=torch.bool, device=env.device)
    at_end = torch.zeros_like(going)
    success, returns, steps = (torch.zeros(shape, device=env.device) for _ in range(3))
    for _ in range(env.spec.episode_length):
        for watch in watchers:
            watch()
        step = env.step(policy(env.obs, env.task))
        steps += going
        returns += torch.where(going, step.reward, 0.0)
        success = torch.maximum(success, torch.where(going, env.score, 0.0))
        at_end = torch.where(going, step.success, at_end)
        metrics = {name: torch.where(going, value, metrics.get(name, value)) for name, value in read().items()}
        # A world whose episode ends early starts another one, which is not counted.
        going &= ~(step.terminated | step.truncated)
    tasks = env.spec.num_tasks
    return Outcome(
        success=_by_task(success, tasks),
        success_at_end=_by_task(at_end, tasks),
        returns=_by_task(returns, tasks),
        metrics={name: _by_task(value, tasks) for name, value in {**metrics, "steps": steps}.items()},
    )


def _by_task(values: Tensor, num_tasks: int) -> Array:
    """Arrange worlds sorted by task as a matrix, (N,) to (E, K)."""
    return np.asarray(values.double().reshape(num_tasks, -1).T.cpu().numpy())


class Evaluator:
    """An environment for evaluations, whose worlds start from the same states in every evaluation."""

    def __init__(self, config: WorldOptions, episodes: int, goals: Goals | None = None) -> None:
        """Build one world per episode.

        Args:
            config: The options of the worlds.
            episodes: Number of episodes per task.
            goals: Goals to evaluate on, for `goals=fixed`; without them, new ones are drawn.
        """
        # A curriculum is for training. Evaluation spreads its episodes over all levels.
        levels = "hard" if config.chosen_levels == "curriculum" else config.levels
        seed, num_envs = (config.seed + SEED_OFFSET) % (MAX_SEED + 1), episodes * len(config.task_names)
        tuning = TuningOptions()  # that is for training too
        self.env = build_env(config, seed=seed, levels=levels, num_envs=num_envs, tuning=tuning)
        if goals:
            set_goals(self.env, goals)
        play_all_levels(self.env)
        self._start = copy.deepcopy(self.env.state_dict())

    def play(self, policy: Policy, watchers: Sequence[Callable[[], None]] = ()) -> Outcome:
        """Run all episodes; `watchers` are those of `run_episodes`."""
        self.env.load_state_dict(copy.deepcopy(self._start))
        return run_episodes(self.env, policy, watchers, self.env.episode_metrics)

    def run(self, policy: Policy, watchers: Sequence[Callable[[], None]] = ()) -> dict[str, Any]:
        """Run all episodes and summarize them."""
        return summarize(self.play(policy, watchers), self.env.spec.tasks, self.env.config.options.levels)

    def run_and_show(self, policy: Policy, watchers: Sequence[Callable[[], None]] = ()) -> dict[str, Any]:
        """Do the same as `run`, and show the progress if it takes long."""
        with RenderProgress("evaluating", self.env.spec.episode_length) as progress:
            return self.run(policy, (*watchers, progress.advance))

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def goals_of(state: dict[str, Any], tasks: Sequence[str]) -> Goals:
    """Return the goals that the state of a manipulation environment contains.

    Args:
        state: What `MultiTaskEnv.state_dict` or `world_state` returned, or a checkpoint's copy of it.
        tasks: The tasks of that environment, in the order of its groups; a newer state has them itself.
    """
    found: dict[str, list[Tensor]] = {}
    for one in state.get("ranks", [state]):  # the ranks own consecutive worlds of each task
        vectors = [part["vector"] for group in one["groups"] for part in group["tasks"]]
        for task, vector in zip(one.get("tasks", tasks), vectors, strict=True):
            found.setdefault(task, []).append(vector)
    return {task: found[task][0] if len(found[task]) == 1 else torch.cat(found[task]) for task in tasks}


def training_goals(config: PolicyConfig) -> Goals | None:
    """Return the goals that the policy of a checkpoint was trained on, if they are fixed and the command wants such."""
    if config.checkpoint is None or config.goals != "fixed" or policy_file(config) is not None:
        return None
    state, path = load_to_act(config.checkpoint), locate(config.checkpoint)
    if state["config"].get("goals") != "fixed":
        return None
    fields: Fields = {"groups": [{"tasks": [{"vector": Tensor}]}]}
    check_fields(state["env"], {"ranks": [fields]} if "ranks" in state["env"] else fields, path, "env.")
    goals = goals_of(state["env"], state["spec"]["tasks"])
    # A task that the policy was not trained on is refused where the policy is built.
    return goals if all(task in goals for task in config.task_names) else None


def set_goals(env: MultiTaskEnv, goals: Goals) -> None:
    """Give the worlds of an environment with `goals=fixed` these goals, evenly spread, and start new episodes."""
    state = env.state_dict()
    for task, own in goals_of(state, env.spec.tasks).items():
        given = goals[task]
        count = max(len(own), len(given))
        own.copy_(given[torch.arange(len(own)) * count // len(own) % len(given)])
    for group in state["groups"]:
        for part in group["tasks"]:
            part["has_vector"].fill_(True)
    env.load_state_dict(state)
    env.reset()


def summarize(outcome: Outcome, tasks: tuple[str, ...], tiles: str | None = None) -> dict[str, Any]:
    """Return means with 95 % intervals over episodes, per task and over the tasks; in parkour without flat ground.

    Args:
        outcome: The episodes.
        tasks: Names of the tasks.
        tiles: In parkour, which tiles the worlds have: hard (default), easy or flat.
    """
    per_task = {}
    for index, task in enumerate(tasks):
        success = outcome.success[:, index : index + 1]
        per_task[task] = {
            "success": float(success.mean()),
            "success_at_end": float(outcome.success_at_end[:, index].mean()),
            "return": float(outcome.returns[:, index].mean()),
            "interval": list(score_interval(success)),
        }
    chosen = counted(tasks)
    success = outcome.success[:, chosen]
    summary = {
        "tasks": per_task,
        "mean_success": float(mean(success)),
        "mean_interval": list(score_interval(success)),
        "iqm_success": float(iqm(success.mean(axis=0, keepdims=True))),  # of the rates (1, K)
        "mean_success_at_end": float(mean(outcome.success_at_end[:, chosen])),
        "episodes": len(outcome.success),
    }
    if "level" in outcome.metrics:
        played = (outcome.success, outcome.success_at_end, outcome.metrics)
        summary["parkour"] = terrain_summary(*played, tasks, tiles or "hard")
    return summary


def evaluation_tables(title: str, summary: dict[str, Any]) -> list[Table]:
    """Lay out a summary as tables: one row per task, the mean in the last row; for parkour, also per level."""
    if "parkour" in summary:
        return terrain_tables(title, summary)
    rows = [
        (task, one["success"], interval_text(one["interval"]), one["success_at_end"], one["return"])
        for task, one in summary["tasks"].items()
    ]
    interval = interval_text(summary["mean_interval"])
    rows.append(("mean", summary["mean_success"], interval, summary["mean_success_at_end"], None))
    return [Table(title, ("task", "success", "95 % interval", "at the end", "return"), rows)]


def interval_text(bounds: list[float]) -> str:
    """Write an interval for a table."""
    return f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def variants(config: EvalConfig) -> dict[str, tuple[EvalConfig, Goals | None]]:
    """Return what to evaluate one after another, by its label: the settings of the worlds, and goals if they are given.

    These are fixed goals, those of training and new ones, or in parkour each choice of tiles and bodies.
    """
    trained = training_goals(config)
    if trained is not None:
        return {TRAINING_GOALS: (config, trained), NEW_GOALS: (config, None)}
    tiles = TILES if config.tiles == BOTH else (config.tiles,)
    bodies = BODIES if config.body == BOTH else (config.body,)
    found: dict[str, tuple[EvalConfig, Goals | None]] = {}
    for tile, body in product(tiles, bodies):
        words = [f"{tile} tiles"] if tile else []
        words += [f"{body} bodies"] if body else []
        label = "".join(f", {word.replace('_', '-')}" for word in words)
        found[label] = (replace(config, tiles=tile, body=body), None)
    return found


def about_policy(config: EvalConfig, shown: Mapping[str, int] | None) -> str:
    """Return what the title of a table says about the policy: whether it acts with noise, and was shown episodes."""
    noise = ", with exploration noise" if config.explore else ""
    return noise + (", trained with demonstrations" if shown else "")


def other_robot(config: EvalConfig, env: MultiTaskEnv) -> str:
    """Return what the title of a table says about a robot that the policy was not trained with; else nothing."""
    saved, robot = saved_settings(config), env.config.robot.name
    trained = None if saved is None else saved.get("robot") or env.config.domain.defaults["robot"]
    return f", robot {robot} (trained with {trained})" if trained not in (None, robot) else ""


def evaluate(config: EvalConfig) -> Result:
    """Run `polytask eval`."""
    check_source(config)
    check_noise(config)
    name, length, about_robot, summaries = config.policy or config.checkpoint, 0, "", {}
    for label, (worlds, goals) in variants(config).items():
        evaluator = Evaluator(worlds, config.episodes, goals)
        length, about_robot = evaluator.env.spec.episode_length, other_robot(config, evaluator.env)
        summaries[label] = evaluator.run_and_show(build_policy(config, evaluator.env, explore=config.explore))
        evaluator.close()
    file = policy_file(config)
    who = f"{name} {file.stem}" if config.policy == "pretrained" and file is not None else name
    title = f"{who}: {config.episodes} episodes of {length} steps per task, seed {config.seed}, {config.reward} reward"
    title += about_robot
    shown = demonstrations_of(config)
    title += about_policy(config, shown)
    (first_label, first), *others = summaries.items()
    payload = {**first, "policy": name, "episode_length": length, "seed": config.seed, "reward": config.reward}
    payload |= {"explore": config.explore, "demonstrations": shown}
    if NEW_GOALS in summaries:
        payload["new_goals"] = summaries[NEW_GOALS]
    elif others:
        payload |= {"worlds": first_label.strip(", "), "others": {label.strip(", "): one for label, one in others}}
    tables = [evaluation_tables(title + label, summary) for label, summary in summaries.items()]
    return Result(payload, [table for part in tables for table in part])
