"""Observations that tell the task: a one-hot code at their end, as in Meta-World."""

from __future__ import annotations

import torch
from gymnasium.spaces import Box
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.spaces import observation_space
from polytask.errors import require_known

TASK_CODES = ("none", "onehot")


class CodedObs:
    """Appends the code of its task to the observation of each world; with "none", nothing."""

    def __init__(self, env: MultiTaskEnv, code: str) -> None:
        """Prepare the codes of all worlds."""
        require_known("task_code", code, TASK_CODES)
        self._code = torch.zeros(env.num_envs, 0, device=env.device)
        if code == "onehot":
            self._code = torch.nn.functional.one_hot(env.task, env.spec.num_tasks).float()
        self.space: Box = observation_space(env.spec, self._code.shape[1])  # of one world

    @property
    def size(self) -> int:
        """Numbers in an observation with its code."""
        return int(self.space.shape[0])

    def __call__(self, obs: Tensor) -> Tensor:
        """Return observations (N, O) with their codes."""
        return torch.cat([obs, self._code], -1) if self._code.shape[1] else obs
