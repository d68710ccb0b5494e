"""Play one episode in every world, and keep it in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.runs.setup import Policy


def seed_of(seed: int, number: int) -> int:
    """Combine the user's seed with the number of a shard, so that two seeds never share episodes."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


class Watch(Protocol):
    """What looks at the worlds while they are played."""

    def begin(self) -> None:
        """Look at the worlds after a reset."""
        ...

    def take(self) -> None:
        """Look at the worlds before a step."""
        ...


@dataclass(frozen=True)
class PlayedEpisodes:
    """One episode of each of N worlds, padded to T steps."""

    steps: dict[str, Tensor]  # name -> (T, N, ...)
    length: Tensor  # (N,)
    last_obs: Tensor  # (N, O) observation after the last action
    seed: int


@torch.no_grad()
def play(env: MultiTaskEnv, policy: Policy, seed: int, watch: Watch | None = None) -> PlayedEpisodes:
    """Reset all worlds from a seed and run one episode in each.

    Args:
        env: The worlds.
        policy: What acts.
        seed: Of the resets.
        watch: Is told of the start and of every step before it happens.
    """
    env.seed(seed)
    env.reset()
    if watch is not None:
        watch.begin()
    n, device = env.spec.num_envs, env.device
    going = torch.ones(n, dtype=torch.bool, device=device)
    length = torch.zeros(n, dtype=torch.int64, device=device)
    last_obs = torch.zeros_like(env.obs)
    rows: list[tuple[Tensor, ...]] = []
    for _ in range(env.spec.episode_length):
        if watch is not None:
            watch.take()
        obs = env.obs.clone()
        action = policy(obs, env.task).clamp(-1.0, 1.0)
        step = env.step(action)
        outcome = (step.reward, step.success, step.terminated, step.truncated)
        rows.append((obs, action.clone(), *(each.clone() for each in outcome)))
        ended = going & (step.terminated | step.truncated)
        length += going
        last_obs = torch.where(ended[:, None], step.next_obs, last_obs)
        # A world whose episode ends early starts another one, which is not written.
        going &= ~ended
    names = ("obs", "action", "reward", "success", "terminated", "truncated")
    steps = {name: torch.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return PlayedEpisodes(steps, length, last_obs, seed)
