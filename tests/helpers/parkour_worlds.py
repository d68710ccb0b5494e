"""Parkour worlds for the tests, and ways to put a robot somewhere."""

from __future__ import annotations

import math

import torch

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.parkour.tasks import TASKS
from polytask.envs.parkour.worlds import ParkourGroup
from polytask.robots.go1 import DEFAULT

ALL = tuple(TASKS)


def make(*tasks: str, **options: object) -> MultiTaskEnv:
    return polytask.make(tasks=tasks, threads=1, **{"stagger": False, **options})


def only(env: MultiTaskEnv) -> ParkourGroup:
    group = env.groups[0]
    assert isinstance(group, ParkourGroup)
    return group


def conclude_at(
    env: MultiTaskEnv, qpos: torch.Tensor, qvel: torch.Tensor | None = None, *, clock: int = 5
) -> ParkourGroup:
    """Put the first world into a state, as if a control step had reached it, and conclude the step."""
    group = only(env)
    everything = torch.ones(env.spec.num_envs, dtype=torch.bool)
    rows = [group.batch.qpos.clone(), torch.zeros_like(group.batch.qvel)]
    rows[0][0] = qpos
    if qvel is not None:
        rows[1][0] = qvel
    group.batch.reset(everything, *rows)
    group.episode.clock.fill_(clock - 1)
    group.buffers.length += 1
    group.conclude()
    return group


def pose(x: float, y: float, z: float = 0.3, yaw: float = 0.0, joints: torch.Tensor | None = None) -> torch.Tensor:
    head = torch.tensor([x, y, z, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
    return torch.cat([head, torch.tensor(DEFAULT) if joints is None else joints])
