"""Judge the shaped reward of every task without training.

Scripted experts show whether it rises on the way to success: its rank correlation with time up to the first success,
how often the stage falls, and whether it stays below its bound until success, so that the last centimetres pay, too.
Policies that must not pay show whether it can be collected otherwise: doing nothing, one constant action, random
actions, hovering 10 cm from where the hand acts with open or closed fingers, and holding the object without bringing it
anywhere.

    python benchmarks/shaped_rewards.py --out benchmarks/results/shaped_rewards_cpu.json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from publish import origin, publish
from torch import Tensor

import polytask
from polytask.envs.manipulation.shared.expert import act
from polytask.envs.manipulation.stages import SIDES, climbed
from polytask.envs.manipulation.worlds import TaskWorlds
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.suites import SUITES

STEPS = 150  # control steps of an episode, as in training
AWAY = 0.1  # distance at which the hovering hand stays
OTHERS = ("nothing", "constant", "random", "hover", "grip_air", "hold")  # the policies that must not pay
Policy = Callable[[MultiTaskEnv], Tensor]


@dataclass(frozen=True)
class Played:
    """One episode per world."""

    reward: Tensor  # (T, N)
    success: Tensor  # (T, N)
    climbed: Tensor  # finished stages plus progress (T, N)


def make_env(tasks: list[str], goals: int, seed: int) -> MultiTaskEnv:
    """Build one world per goal. No episode ends, so that the last state of each can be read."""
    return polytask.make(
        tasks=tasks,
        num_envs=goals * len(tasks),
        stagger=False,
        episode_length=10 * STEPS,
        reward="shaped",
        seed=seed,
        copy=False,
    )


def worlds_of(env: MultiTaskEnv) -> list[TaskWorlds]:
    """Return the worlds of each task, in the order of the tasks."""
    found = {worlds.task.name: worlds for group in env.groups for worlds in group.tasks}
    return [found[name] for name in env.spec.tasks]


def climbed_now(env: MultiTaskEnv) -> Tensor:
    """Return the finished stages plus the progress of every world. (N,)"""
    return torch.cat([climbed(worlds.state, worlds.task.shaped, worlds.first_gaps) for worlds in worlds_of(env)])


@torch.no_grad()
def play(env: MultiTaskEnv, policy: Policy) -> Played:
    """Run one episode in every world."""
    rewards, successes, heights = [], [], []
    for _ in range(STEPS):
        step = env.step(policy(env))
        rewards.append(step.reward.clone())
        successes.append(step.success.clone())
        heights.append(climbed_now(env))
    return Played(torch.stack(rewards), torch.stack(successes), torch.stack(heights))


def policies(env: MultiTaskEnv) -> dict[str, Policy]:
    """Return the expert and the policies that must not pay."""
    expert, generator = ScriptedPolicy(env), torch.Generator().manual_seed(0)
    shape = (env.spec.num_envs, env.spec.action_dim)
    approach = torch.cat(
        [
            torch.full((count,), len(worlds.task.shaped.words) - len(worlds.task.shaped.legs))
            for worlds, count in zip(worlds_of(env), env.spec.envs_per_task, strict=True)
        ]
    )

    def hold(env: MultiTaskEnv) -> Tensor:
        action = expert(env.obs, env.task)
        action[:, :3] *= (climbed_now(env) < approach)[:, None]
        return action

    return {
        "expert": lambda env: expert(env.obs, env.task),
        "nothing": lambda env: torch.zeros(shape),
        "constant": lambda env: torch.tensor([0.0, 1.0, -0.5, 1.0]).expand(shape),
        "random": lambda env: 2 * torch.rand(shape, generator=generator) - 1,
        "hover": lambda env: hover(env, effort=-1.0),
        "grip_air": lambda env: hover(env, effort=1.0),
        "hold": hold,
    }


def hover(env: MultiTaskEnv, effort: float) -> Tensor:
    """Return the action (N, A) that keeps the hand near where it acts, on the side from which it comes."""
    actions = []
    for worlds in worlds_of(env):
        s, how = worlds.state, worlds.task.shaped.hold
        point = s.target + s.constant(0.0, 0.0, AWAY)
        if how is not None:
            point = s.obj + s.constant(*how.at) + AWAY * s.constant(*SIDES[how.side])
        actions.append(act(s.hand, point, gain=10.0, effort=effort))
    return torch.cat(actions)


def first_success(success: Tensor) -> int:
    """Return the first step with success, or the last step of the episode. success: (T,)"""
    return int(success.int().argmax()) if success.any() else len(success) - 1


def rank_correlation(values: Tensor) -> float:
    """Return Spearman's correlation of values (T,) with their position."""
    ordered, time = values.double().sort().values, torch.arange(len(values), dtype=torch.float64)
    first, last = (torch.searchsorted(ordered, values.double(), right=right) for right in (False, True))
    ranks = (first + last).double()  # ties share the mean of their ranks
    ranks, time = ranks - ranks.mean(), time - time.mean()
    return float((ranks * time).sum() / (ranks.norm() * time.norm()).clamp(min=1e-12))


def unsolved_mean(played: Played, rows: range) -> float | None:
    """Return the mean reward per step of the episodes that did not succeed by accident; None if all did."""
    unsolved = ~played.success[:, rows].any(0)
    return float(played.reward[:, rows][:, unsolved].mean()) if unsolved.any() else None


def judge(tasks: list[str], goals: int, seed: int, others: Sequence[str] = OTHERS) -> dict[str, dict[str, Any]]:
    """Return the figures of every task, each a mean over its goals, from the expert and from `others`."""
    env = make_env(tasks, goals, seed)
    played, known = {}, policies(env)
    for name in ("expert", *others):
        env.seed(seed)
        env.reset()
        played[name] = play(env, known[name])
    figures = {}
    for index, task in enumerate(tasks):
        rows = range(goals * index, goals * (index + 1))
        expert, ends = played["expert"], {row: first_success(played["expert"].success[:, row]) + 1 for row in rows}
        falls = [-expert.climbed[: ends[row], row].floor().diff().clamp(max=0.0).sum() for row in rows]
        figures[task] = {
            "stages": len(worlds_of(env)[index].task.shaped.words),
            "solved": float(expert.success[:, rows].any(0).float().mean()),
            "correlation": sum(rank_correlation(expert.reward[: ends[row], row]) for row in rows) / goals,
            "falls": float(torch.stack(falls).mean()),
            "highest_without_success": float(expert.reward[:, rows][~expert.success[:, rows]].max()),
            "reward_per_step": {"expert": float(expert.reward[:, rows].mean())}
            | {name: unsolved_mean(played[name], rows) for name in others},
        }
    env.close()
    return figures


def rounded(value: Any) -> Any:
    """Round every number in nested dictionaries to three digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def main() -> None:
    """Judge all tasks and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(SUITES["mt50"]), help="task names (default: all 50)")
    parser.add_argument("--goals", type=int, default=8, help="goals per task")
    parser.add_argument("--seed", type=int, default=1, help="seed of the goals")
    parser.add_argument("--out", type=Path, help="file to write")
    options = parser.parse_args()
    facts = origin()  # before the tree can change
    tasks = judge(options.tasks, options.goals, options.seed)
    per_step = [one["reward_per_step"] for one in tasks.values()]
    result = {
        "what": "shaped reward per step of experts and, in episodes without success, of policies that must not pay",
        **facts,
        "goals": options.goals,
        "steps": STEPS,
        "seed": options.seed,
        "lowest_correlation": min(one["correlation"] for one in tasks.values()),
        "most_falls": max(one["falls"] for one in tasks.values()),
        "highest_share_of_expert": {
            name: max(one[name] / one["expert"] for one in per_step if one[name] is not None) for name in OTHERS
        },
        "tasks": tasks,
    }
    publish(rounded(result), options.out)


if __name__ == "__main__":
    main()
