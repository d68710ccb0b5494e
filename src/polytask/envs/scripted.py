"""A policy that runs the scripted expert of each task."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.task import Look, Task
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.types import VecEnv


class ScriptedPolicy:
    """The scripted experts of all tasks of an environment, as one policy."""

    def __init__(self, env: VecEnv) -> None:
        """Collect the expert and the number of rows of each task."""
        self._experts = []
        for name in env.spec.tasks:
            task = TASKS[name]
            if not isinstance(task, Task):
                raise UserError("tasks of parkour have no scripted experts; use a checkpoint or random")
            self._experts.append(task.expert)
        self._counts = list(env.spec.envs_per_task)

    def __call__(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions (N, A) for observations of the environment given to the constructor."""
        parts = obs.split(self._counts)
        return torch.cat([expert(Look.of(part)) for expert, part in zip(self._experts, parts, strict=True)])
