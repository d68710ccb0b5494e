"""Play every task with the behaviour that a policy learned in every other task.

    python benchmarks/borrowed_behaviour.py --policy mt50 --tasks mt50 --episodes 8 --out FILE

The policy is told that it is in another task; worlds, starts and the test of success are those of the task itself. The
worlds of a task all act at once, without noise unless `--noise` says otherwise. Episodes count a success at any step.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from publish import origin, publish

import polytask
from polytask.envs.suites import SUITES
from polytask.policies.policy import Policy

LENGTH = 150  # steps of an episode


def success(policy: Policy, task: str, episodes: int, noise: float, seed: int) -> list[float]:
    """Return the success in a task with the behaviour of each task of the policy."""
    behaviour = torch.arange(len(policy.tasks)).repeat_interleave(episodes)
    env = polytask.make(
        tasks=[task], num_envs=len(behaviour), episode_length=LENGTH, stagger=False, seed=seed, copy=False
    )
    generator = torch.Generator().manual_seed(seed)
    succeeded = torch.zeros(len(behaviour), dtype=torch.bool)
    for _ in range(LENGTH):
        action = policy(env.obs, behaviour)
        white = torch.randn(action.shape, generator=generator)
        succeeded |= env.step((action + noise * white).clamp(-1.0, 1.0)).success
    env.close()
    return succeeded.float().view(-1, episodes).mean(dim=-1).tolist()


def main(argv: Sequence[str] | None = None) -> None:
    """Play the tasks one after the other and publish the table, which names only behaviours that succeed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="mt50", help="policy file, run or the name of a suite")
    parser.add_argument("--tasks", default="mt50", help="a suite, or tasks with commas between them")
    parser.add_argument("--episodes", type=int, default=8, help="episodes of each task with each behaviour")
    parser.add_argument("--noise", type=float, default=0.0, help="standard deviation of white noise on the actions")
    parser.add_argument("--seed", type=int, default=0, help="seed of starts and noise")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    policy = polytask.load_policy(options.policy)
    tasks: dict[str, Any] = {}
    for task in SUITES.get(options.tasks) or options.tasks.split(","):
        rates = success(policy, task, options.episodes, options.noise, options.seed)
        found = {name: round(rate, 3) for name, rate in zip(policy.tasks, rates, strict=True) if rate > 0}
        tasks[task] = dict(sorted(found.items(), key=lambda each: -each[1]))
    best = [max((rate for name, rate in found.items() if name != task), default=0.0) for task, found in tasks.items()]
    result = {
        "what": "success in each task with the behaviour that the policy has in each task; those without are left out",
        **origin(),
        "policy": options.policy,
        "episodes": options.episodes,
        "noise": options.noise,
        "solved_by_another": sum(rate > 0 for rate in best),
        "solved_by_another_in_half_of_the_episodes": sum(rate >= 0.5 for rate in best),
        "tasks": tasks,
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
