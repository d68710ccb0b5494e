"""What simple policies reach from the starts of an experiment's own evaluation: constant commands, random, scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from experiment import contrast, rate

from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.roles.evaluation import SCRIPT, best_blind
from polytask.mtopt.roles.simple_policies import RANDOM, ConstantPolicy, RandomPolicy, constant_policies
from polytask.mtopt.tasks import ALL_TASKS
from polytask.mtopt.world import BinWorld, Policy, run_episodes

Rates = Sequence[dict[str, float | int]]  # of each seed, with the count of its episodes


def simple_rates(
    world: BinWorld, starts: Sequence[Callable[[], None]], tasks: Sequence[str], script: Policy, max_steps: int
) -> dict[str, dict[str, Any]]:
    """Return the rate of every simple policy on every task.

    Args:
        world: The worlds.
        starts: Each brings all worlds to starts that the evaluation uses.
        tasks: Of one skill; these policies do not know which is asked for, so all worlds count for each.
        script: Of that skill.
        max_steps: Most actions of an episode.
    """
    found: dict[str, dict[str, Any]] = {task: {} for task in tasks}
    for name, policy in policies(world, script).items():
        parts = []
        for start in starts:
            start()
            parts.append(run_episodes(world, policy, [tasks[0]], max_steps).truth)
        truth = torch.cat(parts)
        for task in tasks:
            found[task][name] = rate(truth[:, ALL_TASKS.index(task)])
    return found


def policies(world: BinWorld, script: Policy) -> dict[str, Policy]:
    """Return the simple policies by name."""
    constant = {name: ConstantPolicy(name) for name in constant_policies(ActionConfig())}
    return {**constant, RANDOM: RandomPolicy(CEMConfig(), 0, world.device), SCRIPT: script}


def best_of_each(rates: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the name and rate of the best policy that sees nothing, by task."""
    best = {task: best_blind({name: float(one["mean"]) for name, one in row.items()}) for task, row in rates.items()}
    return {task: {"policy": name, **rates[task][name]} for task, name in best.items() if name is not None}


def above_blind(mine: Rates, simple: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how far a setting is above the best policy that sees nothing.

    Args:
        mine: The rates of the setting.
        simple: The rates by simple policy with the number of `episodes`, of each seed or once for all.
    """
    means = {name: sum(row[name] for row in simple) / len(simple) for name in simple[0] if name != "episodes"}
    best = best_blind(means)
    assert best is not None, "every world has policies that see nothing"
    return {"policy": best, **contrast(mine, [{"mean": row[best], "count": row["episodes"]} for row in simple])}
