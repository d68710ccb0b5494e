"""Repeat the actions of a policy, so that a benchmark times the environment in contact but not the policy.

With random actions the robot hardly touches anything. A policy that handles objects makes contacts, which cost time. So
its actions are recorded first, and the environment then goes back to where the recording began.
"""

from __future__ import annotations

import torch

from polytask.config.schema import BenchConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.runs.setup import Policy, build_policy


class Replay:
    """The recorded actions of a policy and the state in which the first of them was taken.

    On the CPU the repeated steps equal the recorded ones. On a GPU they differ in the last bits.
    """

    @torch.no_grad()
    def __init__(self, env: MultiTaskEnv, policy: Policy, steps: int) -> None:
        """Play one episode, so that worlds are in all phases of their episodes, and record the `steps` after it."""
        self._env = env
        for _ in range(env.config.episode_length):
            env.step(policy(env.obs, env.task))
        self._start = env.state_dict()
        shape = (steps, env.spec.num_envs, env.spec.action_dim)
        self._actions = torch.zeros(shape, device=env.device)
        for action in self._actions:
            action.copy_(policy(env.obs, env.task))
            env.step(action)
        self.restart()

    def restart(self) -> None:
        """Go back to the state before the first recorded action."""
        self._env.load_state_dict(self._start)
        self._next = 0

    def run(self, steps: int) -> None:
        """Take the next recorded actions; after the last one, begin again with the first."""
        for _ in range(steps):
            self._env.step(self._actions[self._next])
            self._next = (self._next + 1) % len(self._actions)


def bench_policy(config: BenchConfig, env: MultiTaskEnv) -> Policy | None:
    """Return the policy whose actions are timed, or None for random actions."""
    is_random = config.checkpoint is None and config.policy in (None, "random")
    return None if is_random else build_policy(config, env)
