"""Collect experience on policy into fixed buffers and draw minibatches that give every task the same number of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.types import EnvSpec, VecEnv


@dataclass
class Rollout:
    """T steps of N worlds; flattened, its tensors are indexed by row = t * N + n."""

    obs: Tensor  # (T, N, O) raw observation acted on
    next_obs: Tensor  # (T, N, O) raw observation the action led to, before any reset
    action: Tensor  # (T, N, A) as chosen, before the environment clips it
    reward: Tensor  # (T, N)
    terminated: Tensor  # (T, N) bool
    truncated: Tensor  # (T, N) bool

    @classmethod
    def allocate(cls, spec: EnvSpec, horizon: int, device: torch.device) -> Rollout:
        """Reserve the buffers once; every collection reuses them, so their addresses may be captured."""
        rows = (horizon, spec.num_envs)
        return cls(
            obs=torch.zeros(*rows, spec.obs_dim, device=device),
            next_obs=torch.zeros(*rows, spec.obs_dim, device=device),
            action=torch.zeros(*rows, spec.action_dim, device=device),
            reward=torch.zeros(rows, device=device),
            terminated=torch.zeros(rows, dtype=torch.bool, device=device),
            truncated=torch.zeros(rows, dtype=torch.bool, device=device),
        )

    @property
    def done(self) -> Tensor:
        """Whether an episode ended with the step (T, N), for whatever reason."""
        return self.terminated | self.truncated


@torch.no_grad()
def roll_out(env: VecEnv, act: Callable[[Tensor], Tensor], rollout: Rollout) -> None:
    """Fill the rollout with its T steps, going on from wherever the environments stand.

    Args:
        env: The environments.
        act: Maps observations (N, O) to actions (N, A); may return the same tensor every time.
        rollout: Buffers to overwrite.
    """
    for t in range(len(rollout.reward)):
        rollout.obs[t] = env.obs
        action = act(env.obs)
        rollout.action[t] = action
        step = env.step(action)
        rollout.next_obs[t] = step.next_obs
        rollout.reward[t] = step.reward
        rollout.terminated[t] = step.terminated
        rollout.truncated[t] = step.truncated


def task_index(spec: EnvSpec, device: torch.device) -> Tensor:
    """List the task of each world (N,), worlds being sorted by task."""
    counts = torch.tensor(spec.envs_per_task)
    return torch.repeat_interleave(torch.arange(spec.num_tasks), counts).to(device)


def num_minibatches(rows: int, minibatch: int) -> int:
    """Return how many minibatches of about the wanted size an epoch over so many rows has, at least one."""
    return max(1, round(rows / minibatch))


class TaskMajorSampler:
    """Shuffles the rows of a rollout into minibatches with a leading task axis, anew for every epoch.

    Each task's rows are permuted and dealt out in that order, going round again for a task with fewer worlds than the
    average and leaving out a random remainder for one with more. So every minibatch weighs the tasks equally whatever
    their worlds, and when all have the same number and it divides evenly, an epoch visits every row exactly once.
    """

    def __init__(self, task: Tensor, num_tasks: int, horizon: int, num_minibatches: int) -> None:
        """Prepare for rollouts of `horizon` steps of worlds whose tasks are `task` (N,), sorted."""
        rows = horizon * len(task)
        self.shape = (num_tasks, num_minibatches, -(-rows // (num_tasks * num_minibatches)))
        count = horizon * torch.bincount(task, minlength=num_tasks)  # (K,) rows of each task
        start = count.cumsum(0) - count
        turn = torch.arange(self.shape[1] * self.shape[2], device=task.device)  # (M * b,)
        self._position = start.unsqueeze(-1) + turn % count.unsqueeze(-1)  # (K, M * b), into the rows sorted by task
        self._task = task.repeat(horizon)  # (T * N,)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Return the rows of one epoch's minibatches as an index (M, K, b) into flat rollout tensors."""
        # Integer keys: a float task + U[0, 1) rounds up into the next task now and then.
        bits = torch.randint(2**32, self._task.shape, generator=generator, device=self._task.device)
        order = torch.argsort(self._task * 2**32 + bits)  # (T * N,) by task, random within it
        return order[self._position].unflatten(1, self.shape[1:]).transpose(0, 1)  # (M, K, b)
