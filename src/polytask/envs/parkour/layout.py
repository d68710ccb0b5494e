"""What is fixed when parkour worlds are created: task, first level and body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.envs.domain import EnvConfig
from polytask.envs.parkour import body as bodies
from polytask.envs.parkour.curriculum import FIRST_LEVELS
from polytask.envs.parkour.tasks import NUM_LEVELS, Terrain


@dataclass(frozen=True)
class TaskRows:
    """The rows of a group that belong to one task."""

    task: Terrain
    worlds: slice
    model: mujoco.MjModel
    mocaps: NDArray[np.int64]


@dataclass(frozen=True)
class WorldLayout:
    """Task, first level and body of N worlds."""

    column: Tensor  # (N,) int64 task index
    level: Tensor  # (N,) int64
    body: bodies.Body

    @classmethod
    def draw(cls, config: EnvConfig, generator: torch.Generator) -> WorldLayout:
        """Spread the worlds of each task over the levels or, with a curriculum, draw one of the lowest levels.

        With several ranks, this is done for all worlds, and those of this rank are returned.
        """
        counts, device = config.envs_per_task, config.device
        uniform = torch.rand(sum(counts), bodies.DRAWS + 1, generator=generator, device=device)
        column = torch.cat([torch.full((count,), index) for index, count in enumerate(counts)]).to(device)
        if config.options.level is not None:
            level = torch.full_like(column, config.options.level)
        elif config.options.levels == "curriculum":
            level = (FIRST_LEVELS * uniform[:, -1]).long()
        else:
            level = torch.cat([torch.arange(count) % NUM_LEVELS for count in counts]).to(device)
        own = config.share.own
        body = bodies.Body.draw(own(uniform)[:, :-1])
        if config.options.body == "nominal":
            body = bodies.Body.nominal(len(body.load), device)
        return cls(own(column), own(level), body)

    def part(self, worlds: slice) -> WorldLayout:
        """Return the layout of some of the worlds."""
        body = bodies.Body(**{name: tensor[worlds].clone() for name, tensor in vars(self.body).items()})
        return WorldLayout(self.column[worlds], self.level[worlds], body)

    def rows(self, tasks: Sequence[Terrain], model: mujoco.MjModel) -> list[TaskRows]:
        """Return the tasks that have worlds here, with their rows in a batch of `model`."""
        counts = torch.bincount(self.column, minlength=len(tasks)).tolist()
        rows, start = [], 0
        for task, count in zip(tasks, counts, strict=True):
            if count:
                rows.append(TaskRows(task, slice(start, start + count), model, np.arange(model.nmocap)))
            start += count
        return rows


def spread_levels(count: int, task: int) -> Tensor:
    """Return the levels (count,) of the episodes of one task in an evaluation.

    Each level gets equally many. What is left is spread over easy and hard levels, and over others in the next task.
    """
    rest = count % NUM_LEVELS
    even = torch.arange(count - rest) % NUM_LEVELS
    return torch.cat([even, ((torch.arange(rest) + 0.5) * NUM_LEVELS / max(rest, 1)).long().add(task) % NUM_LEVELS])
