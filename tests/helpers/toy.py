"""An analytic VecEnv that any learner solves in seconds: a point in the plane, with a different goal in each task.

The observation does not contain the goal, so a policy needs the task number. The scale of the rewards differs between
tasks. An episode is truncated after 30 steps. It is terminated, without reward, when the point leaves the arena.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polytask.types import EnvSpec, Step

GOALS = ((0.6, 0.6), (-0.6, 0.3), (0.2, -0.7))
SCALES = (1.0, 10.0, 0.1)  # reward of a step at the goal, per task
ARENA, STRIDE, REACH = 1.5, 0.25, 0.2  # half-width, largest step along an axis, largest distance of a success


class PointMass:
    """N points that move by their action, sorted by task. Their first episodes start at different steps."""

    def __init__(self, envs_per_task: tuple[int, ...] = (16, 16, 16), seed: int = 0, device: str = "cpu") -> None:
        """Build one task per entry of `envs_per_task`, at most three, and reset."""
        num_tasks = len(envs_per_task)
        self.device = torch.device(device)
        self.spec = EnvSpec(3, 2, tuple(f"goal-{k}" for k in range(num_tasks)), envs_per_task, 30, places=(0,))
        self.task = torch.arange(num_tasks).repeat_interleave(torch.tensor(envs_per_task)).to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.goal = torch.tensor(GOALS, device=self.device)[self.task]  # (N, 2)
        self.scale = torch.tensor(SCALES, device=self.device)[self.task]  # (N,)
        self.reset()
        self.clock = torch.arange(self.spec.num_envs, device=self.device) * 7 % self.spec.episode_length

    def reset(self) -> Tensor:
        """Put every point at a random position, with coordinates in [-1, 1], and start all episodes."""
        self.position = self._sample()  # (N, 2)
        self.clock = torch.zeros(self.spec.num_envs, dtype=torch.int64, device=self.device)
        self.obs = self._observe()
        return self.obs

    def step(self, action: Tensor) -> Step:
        """Move the points, reward closeness to the goal, and reset the points whose episode ended."""
        self.position = self.position + STRIDE * action.clamp(-1, 1)
        self.clock = self.clock + 1
        next_obs = self._observe()
        distance = (self.position - self.goal).norm(dim=-1)
        terminated = (self.position.abs() > ARENA).any(dim=-1)
        truncated = (self.clock >= self.spec.episode_length) & ~terminated
        reward = self.scale * torch.exp(-2 * distance) * ~terminated
        done = (terminated | truncated).unsqueeze(-1)
        self.position = torch.where(done, self._sample(), self.position)
        self.clock = self.clock * ~done.squeeze(-1)
        self.obs = self._observe()
        return Step(self.obs, next_obs, reward, terminated, truncated, distance < REACH)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a copy needs to continue identically."""
        return {"position": self.position, "clock": self.clock, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.position, self.clock = state["position"].clone(), state["clock"].clone()
        self.generator.set_state(state["generator"])
        self.obs = self._observe()

    def _sample(self) -> Tensor:
        shape = (self.spec.num_envs, 2)
        return 2 * torch.rand(shape, generator=self.generator, device=self.device) - 1

    def _observe(self) -> Tensor:
        # The last entry is constant, like many entries of real observations.
        return torch.cat([self.position, torch.full_like(self.position[:, :1], 3.0)], dim=-1)  # (N, 3)


def success_rate(env: PointMass, act: Any) -> Tensor:
    """Run one episode without noise and return the share of points that end at their goal, per task. (K,)"""
    obs = env.reset()
    for _ in range(env.spec.episode_length - 1):
        step = env.step(act(obs, env.task, explore=False))
        obs = step.obs
    return torch.stack([step.success[env.task == k].float().mean() for k in range(env.spec.num_tasks)])
