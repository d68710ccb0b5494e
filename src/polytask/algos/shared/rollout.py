"""On-policy collection into fixed buffers, and minibatches with the same number of rows of every task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from polytask.nets.task_code import one_hot
from polytask.types import EnvSpec, VecEnv


class Choice(NamedTuple):
    """Random actions of worlds. An algorithm whose policy is no Gaussian needs only the actions."""

    action: Tensor  # (N, A) before the environment clips it
    log_prob: Tensor | None = None  # (N,) its log-density
    mean: Tensor | None = None  # (N, A) of the distribution that it was drawn from
    log_std: Tensor | None = None  # (N, A) logarithm of the standard deviation of this distribution


class Step(NamedTuple):
    """What the policy saw and did in one step."""

    obs: Tensor  # (N, O)
    action: Tensor  # (N, A)


@dataclass
class Rollout:
    """T steps of N worlds; flattened, its tensors are indexed by row = t * N + n.

    The steps before these steps are views of the same memory, one step earlier. The first of them is the last step of
    the rollout before; at the start of a run it is zero.
    """

    obs: Tensor  # (T, N, O) raw observation before the action
    next_obs: Tensor  # (T, N, O) raw observation after the action, before any reset
    action: Tensor  # (T, N, A) as chosen, before the environment clips it
    log_prob: Tensor  # (T, N) log-density of the action; this and the next two are zero without a Gaussian policy
    mean: Tensor  # (T, N, A) of the distribution that the action was drawn from
    log_std: Tensor  # (T, N, A)
    reward: Tensor  # (T, N)
    terminated: Tensor  # (T, N) bool
    truncated: Tensor  # (T, N) bool
    success: Tensor  # (T, N) bool
    last_obs: Tensor  # (T, N, O) `obs` of the step before
    last_action: Tensor  # (T, N, A) `action` of the step before

    @classmethod
    def allocate(cls, spec: EnvSpec, horizon: int, device: torch.device) -> Rollout:
        """Allocate the buffers; every collection reuses them, so a graph may capture their addresses."""
        rows = (horizon, spec.num_envs)
        obs, action = (
            torch.zeros(horizon + 1, rows[1], width, device=device) for width in (spec.obs_dim, spec.action_dim)
        )
        return cls(
            obs=obs[1:],
            next_obs=torch.zeros(*rows, spec.obs_dim, device=device),
            action=action[1:],
            log_prob=torch.zeros(rows, device=device),
            mean=torch.zeros(*rows, spec.action_dim, device=device),
            log_std=torch.zeros(*rows, spec.action_dim, device=device),
            reward=torch.zeros(rows, device=device),
            terminated=torch.zeros(rows, dtype=torch.bool, device=device),
            truncated=torch.zeros(rows, dtype=torch.bool, device=device),
            success=torch.zeros(rows, dtype=torch.bool, device=device),
            last_obs=obs[:-1],
            last_action=action[:-1],
        )

    @property
    def known_to_all(self) -> tuple[Tensor, ...]:
        """The tensors that all ranks need; `next_obs` is read only by the rank that simulates its world."""
        acted = self.obs, self.action, self.log_prob, self.mean, self.log_std
        return *acted, self.reward, self.terminated, self.truncated, self.success

    @property
    def before(self) -> Step:
        """The last step before the rollout."""
        return Step(self.last_obs[0], self.last_action[0])

    @property
    def end(self) -> Step:
        """The last step of the rollout."""
        return Step(self.obs[-1], self.action[-1])

    @property
    def done(self) -> Tensor:
        """Whether the episode ended with the step, terminated or truncated (T, N)."""
        return self.terminated | self.truncated


@torch.no_grad()
def roll_out(env: VecEnv, act: Callable[[Tensor], Choice], rollout: Rollout) -> None:
    """Take T steps from the current state of the worlds and write them into the rollout.

    Args:
        env: The environment.
        act: Chooses actions at observations (N, O); may return the same tensors every time.
        rollout: Buffers to overwrite.
    """
    for before, end in zip(rollout.before, rollout.end, strict=True):
        before.copy_(end)
    for t in range(len(rollout.reward)):
        rollout.obs[t] = env.obs
        choice = act(env.obs)
        for name, column in choice._asdict().items():
            if column is not None:
                getattr(rollout, name)[t] = column
        step = env.step(choice.action)
        rollout.next_obs[t] = step.next_obs
        rollout.reward[t] = step.reward
        rollout.terminated[t] = step.terminated
        rollout.truncated[t] = step.truncated
        rollout.success[t] = step.success


def task_index(spec: EnvSpec, device: torch.device) -> Tensor:
    """Return the task of each world (N,); worlds are sorted by task."""
    counts = torch.tensor(spec.envs_per_task)
    return torch.repeat_interleave(torch.arange(spec.num_tasks), counts).to(device)


def num_minibatches(rows: int, minibatch: int) -> int:
    """Return the number of minibatches of about `minibatch` rows in an epoch of `rows` rows, at least one."""
    return max(1, round(rows / minibatch))


class TaskMajorSampler:
    """Shuffles the rows of a rollout into minibatches with a leading task axis, in a new order for every epoch.

    The rows of each task are permuted and distributed in that order. A task with fewer worlds than the average repeats
    its rows. A task with more worlds omits a random part of them. So every minibatch weighs the tasks equally, whatever
    their number of worlds. If all tasks have the same number and it divides evenly, an epoch visits every row once.
    Worlds that do not count lend their places to other rows of their task.
    """

    def __init__(self, task: Tensor, num_tasks: int, horizon: int, num_minibatches: int) -> None:
        """Prepare for rollouts of `horizon` steps of worlds whose tasks are `task` (N,), sorted."""
        rows = horizon * len(task)
        self.shape = (num_tasks, num_minibatches, -(-rows // (num_tasks * num_minibatches)))
        count = horizon * torch.bincount(task, minlength=num_tasks)  # (K,) rows of each task
        start = count.cumsum(0) - count
        turn = torch.arange(self.shape[1] * self.shape[2], device=task.device)  # (M * b,)
        self._start, self._turn, self._count = start.unsqueeze(-1), turn, count.unsqueeze(-1)
        self._member = one_hot(task, num_tasks, torch.float64)  # (N, K)
        self._task, self._horizon = task.repeat(horizon), horizon  # (T * N,)

    def draw(self, generator: torch.Generator, counted: Tensor | None = None) -> Tensor:
        """Return the minibatches of one epoch as an index (M, K, b) into flat rollout tensors.

        Args:
            generator: Source of randomness.
            counted: Worlds whose rows may be drawn, at least one of each task; None for all. (N,) bool
        """
        # Integer keys, because a float key task + U[0, 1) can round up into the next task.
        key = self._task * 2**32 + torch.randint(2**32, self._task.shape, generator=generator, device=self._task.device)
        count = self._count
        if counted is not None:  # the others come last within their task, beyond the rows that are used
            key += self._task * 2**32 + 2**32 * (~counted).repeat(self._horizon)
            count = self._horizon * (counted.double() @ self._member).long().unsqueeze(-1)
        order = torch.argsort(key)  # (T * N,) by task, random within it
        position = self._start + self._turn % count  # (K, M * b)
        return order[position].unflatten(1, self.shape[1:]).transpose(0, 1)  # (M, K, b)
