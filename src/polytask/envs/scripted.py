"""A policy that runs the scripted expert of each task."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.task import Look
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError


class ScriptedPolicy:
    """The scripted experts of all tasks of an environment, as one policy."""

    def __init__(self, env: MultiTaskEnv) -> None:
        """Collect the expert and the number of rows of each task."""
        if env.config.domain.name != "manipulation":
            raise UserError(f"tasks of {env.config.domain.name} have no scripted experts; use a checkpoint or random")
        self._experts = [task.expert for task in env.config.tasks]
        self._counts = list(env.spec.envs_per_task)

    def __call__(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions (N, A) for observations of the environment given to the constructor."""
        parts = obs.split(self._counts)
        return torch.cat([expert(Look.of(part)) for expert, part in zip(self._experts, parts, strict=True)])
