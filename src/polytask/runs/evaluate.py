"""Measure success and return of a policy per task: one episode without exploration noise per world, fixed seeds."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polytask.config.schema import EvalConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import WorldOptions
from polytask.errors import UserError
from polytask.result import Result, Table
from polytask.runs.setup import Policy, build_env, build_policy, check_source
from polytask.statistics import Array, bootstrap, iqm, mean

# Added to the seed, so that evaluation and training have different goals.
SEED_OFFSET = 1_000_003


@dataclass(frozen=True)
class Outcome:
    """The results of E episodes of each of K tasks."""

    success: Array  # (E, K) highest score of any step: 1 for success, else 0; in parkour the progress
    success_at_end: Array  # (E, K) success at the last step
    returns: Array  # (E, K) sum of rewards


@torch.no_grad()
def run_episodes(env: MultiTaskEnv, policy: Policy) -> Outcome:
    """Run one episode in every world. All worlds must be at the start of an episode."""
    shape = (env.spec.num_envs,)
    going = torch.ones(shape, dtype=torch.bool, device=env.device)
    at_end = torch.zeros_like(going)
    success, returns = torch.zeros(shape, device=env.device), torch.zeros(shape, device=env.device)
    for _ in range(env.spec.episode_length):
        step = env.step(policy(env.obs, env.task))
        returns += torch.where(going, step.reward, 0.0)
        success = torch.maximum(success, torch.where(going, env.score, 0.0))
        at_end = torch.where(going, step.success, at_end)
        # A world whose episode ends early starts another one, which is not counted.
        going &= ~(step.terminated | step.truncated)
    by_task = [_by_task(each, env.spec.num_tasks) for each in (success, at_end, returns)]
    return Outcome(*by_task)


def _by_task(values: Tensor, num_tasks: int) -> Array:
    """Arrange worlds sorted by task as a matrix, (N,) to (E, K)."""
    return np.asarray(values.double().reshape(num_tasks, -1).T.cpu().numpy())


class Evaluator:
    """An environment for evaluations, whose worlds start from the same states in every evaluation."""

    def __init__(self, config: WorldOptions, episodes: int) -> None:
        """Build one world per episode."""
        if episodes < 1:
            raise UserError(f"episodes={episodes} must be at least 1")
        # A curriculum is for training. Evaluation spreads its episodes over all levels.
        levels = "hard" if config.chosen_levels == "curriculum" else config.levels
        seed, num_envs = config.seed + SEED_OFFSET, episodes * len(config.task_names)
        self.env = build_env(config, seed=seed, levels=levels, num_envs=num_envs)
        self._start = copy.deepcopy(self.env.state_dict())

    def run(self, policy: Policy) -> dict[str, Any]:
        """Run all episodes and summarize them."""
        self.env.load_state_dict(copy.deepcopy(self._start))
        return summarize(run_episodes(self.env, policy), self.env.spec.tasks)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def summarize(outcome: Outcome, tasks: tuple[str, ...]) -> dict[str, Any]:
    """Return means with 95 % bootstrap intervals, per task and over the tasks."""
    per_task = {}
    for index, task in enumerate(tasks):
        success = outcome.success[:, index : index + 1]
        per_task[task] = {
            "success": float(success.mean()),
            "success_at_end": float(outcome.success_at_end[:, index].mean()),
            "return": float(outcome.returns[:, index].mean()),
            "interval": list(bootstrap(success)),
        }
    rates = outcome.success.mean(axis=0, keepdims=True)  # (1, K)
    return {
        "tasks": per_task,
        "mean_success": float(mean(outcome.success)),
        "mean_interval": list(bootstrap(outcome.success)),
        "iqm_success": float(iqm(rates)),
        "mean_success_at_end": float(mean(outcome.success_at_end)),
        "episodes": len(outcome.success),
    }


def evaluation_table(title: str, summary: dict[str, Any]) -> Table:
    """Lay out a summary as a table, with one row per task and the mean in the last row."""
    rows = [
        (task, one["success"], _interval(one["interval"]), one["success_at_end"], one["return"])
        for task, one in summary["tasks"].items()
    ]
    interval = _interval(summary["mean_interval"])
    rows.append(("mean", summary["mean_success"], interval, summary["mean_success_at_end"], None))
    return Table(title, ("task", "success", "95 % interval", "at the end", "return"), rows)


def _interval(bounds: list[float]) -> str:
    return f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def evaluate(config: EvalConfig) -> Result:
    """Run `polytask eval`."""
    check_source(config)
    evaluator = Evaluator(config, config.episodes)
    policy = build_policy(config, evaluator.env)
    summary = evaluator.run(policy)
    evaluator.close()
    name = config.policy or config.checkpoint
    length = evaluator.env.spec.episode_length
    title = f"{name}: {config.episodes} episodes of {length} steps per task, seed {config.seed}"
    payload = {**summary, "policy": name, "episode_length": length, "seed": config.seed}
    return Result(payload, [evaluation_table(title, summary)])
