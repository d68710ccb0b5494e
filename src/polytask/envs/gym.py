"""The environment as a `gymnasium.vector.VectorEnv`: `gymnasium.make_vec("polytask/MT10-v0", num_envs=64)`.

Observations, actions, rewards and flags stay torch tensors on the environment's device. When an episode ends, the next
one starts in the same step. `info["final_obs"]` has the last observation of the ended episode, and `info["task"]` the
task index of each world.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from polytask.envs.make import make


class GymVectorEnv(VectorEnv):
    """A thin wrapper around `MultiTaskEnv`."""

    def __init__(self, suite: str = "mt10", num_envs: int | None = None, **options: Any) -> None:
        """Build the environment; the options are those of `polytask.make`."""
        self.env = make(suite, num_envs=num_envs, **options)
        spec = self.env.spec
        self.num_envs = spec.num_envs
        self.autoreset_mode = AutoresetMode.SAME_STEP
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (spec.obs_dim,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Start a new episode in every world."""
        if seed is not None:
            self.env.seed(seed)
        return self.env.reset().clone(), {"task": self.env.task}

    def step(self, actions: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Apply actions (N, A), given as a tensor or an array."""
        step = self.env.step(torch.as_tensor(actions, dtype=torch.float32, device=self.env.device))
        done = step.terminated | step.truncated
        info = {
            "task": self.env.task,
            "success": step.success.clone(),
            "final_obs": step.next_obs.clone(),
            "_final_obs": done,
        }
        return step.obs.clone(), step.reward.clone(), step.terminated.clone(), step.truncated.clone(), info

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the worker threads."""
        self.env.close()
