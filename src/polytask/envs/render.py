"""Render single worlds with MuJoCo's own renderer, for videos and the gallery.

The state is copied into one `MjData`, so that worlds of both backends look the same.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from polytask.envs.domain import TaskSlice, WorldGroup
from polytask.sim.opengl import make_renderer
from polytask.types import EnvSpec

_CAMERA = "scene"


class Worlds(Protocol):
    """What is drawn: a `MultiTaskEnv`."""

    @property
    def spec(self) -> EnvSpec:
        """The tasks and their numbers of worlds."""
        ...

    @property
    def groups(self) -> Sequence[WorldGroup]:
        """The worlds."""
        ...


@dataclass(frozen=True)
class Pose:
    """Everything that a picture of a world depends on."""

    qpos: NDArray[np.float32]  # (nq,)
    mocap_pos: NDArray[np.float32]  # (nmocap, 3)
    mocap_quat: NDArray[np.float32]  # (nmocap, 4)


@dataclass(frozen=True)
class Place:
    """Where a world is: its group, its task there, and its row in the batch of the group."""

    group: WorldGroup
    part: TaskSlice
    row: int


def places_of(env: Worlds) -> list[Place]:
    """Return the place of every world, in the order of the environment's worlds."""
    places = [
        Place(group, part, row)
        for group in env.groups
        for part in group.tasks
        for row in range(part.worlds.start, part.worlds.stop)
    ]
    return sorted(places, key=lambda place: env.spec.tasks.index(place.part.task.name))  # stable, like `RowOrder`


def pose_of(env: Worlds, task: str, world: int = 0) -> Pose:
    """Copy the current pose of a task's `world`-th world, to draw it later."""
    group, own = _find(env, task)
    batch, row = group.batch, own.worlds.start + world
    qpos, mocap_pos, mocap_quat = (
        tensor[row].cpu().numpy() for tensor in (batch.qpos, batch.mocap_pos, batch.mocap_quat)
    )
    return Pose(qpos.copy(), mocap_pos[own.mocaps], mocap_quat[own.mocaps])


def _find(env: Worlds, task: str) -> tuple[WorldGroup, TaskSlice]:
    """Return the group of a task and its part of it."""
    return next((group, own) for group in env.groups for own in group.tasks if own.task.name == task)


class Renderer:
    """Draws the worlds of one task of an environment."""

    def __init__(self, env: Worlds, task: str, width: int = 480, height: int = 360) -> None:
        """Open an off-screen OpenGL context."""
        self._env, self._task = env, task
        self._model = copy.copy(_find(env, task)[1].model)  # a copy, because `copy_layout` writes to it
        self._data = mujoco.MjData(self._model)
        self._renderer = make_renderer(self._model, width, height)

    def frame(self, world: int = 0) -> NDArray[np.uint8]:
        """Draw the current state of the task's `world`-th world. (H, W, 3)"""
        self.follow_layout(world)
        return self.draw(pose_of(self._env, self._task, world))

    def follow_layout(self, world: int = 0) -> None:
        """Give the geoms that do not move the places and sizes that they now have in a world."""
        group, own = _find(self._env, self._task)
        group.batch.copy_layout(world=own.worlds.start + world, model=self._model)

    def draw(self, pose: Pose) -> NDArray[np.uint8]:
        """Draw a world in a given pose. (H, W, 3)"""
        self._data.qpos[:] = pose.qpos
        self._data.mocap_pos[:] = pose.mocap_pos
        self._data.mocap_quat[:] = pose.mocap_quat
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, camera=_CAMERA)
        image: NDArray[np.uint8] = self._renderer.render().copy()  # the renderer reuses its buffer
        return image

    def close(self) -> None:
        """Free the context."""
        self._renderer.close()
