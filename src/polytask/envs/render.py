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

from polytask.envs.domain import Mark, TaskSlice, WorldGroup
from polytask.envs.views import SCENE, VIEWS, View
from polytask.errors import UserError
from polytask.sim.opengl import make_renderer
from polytask.types import EnvSpec

_FINGERTIPS = ("rightEndEffector", "leftEndEffector")  # sites that every arm has
# Fields of a model that differ between worlds of one task and change its picture: those of the geoms, and the masses,
# because cameras and lights can follow the centre of mass.
_GEOMS = ("geom_pos", "geom_quat", "geom_size", "geom_aabb", "geom_rbound")
_LAYOUT = (*_GEOMS, "body_mass", "body_ipos", "body_subtreemass", "cam_poscom0", "light_poscom0")
Layout = dict[str, NDArray[np.float64]]
# Radius and colour of the ball at a mark, and of that at the next one.
_BALL = (0.07, (0.10, 0.45, 0.20, 1.0))
_NEXT_BALL = (0.11, (0.25, 1.0, 0.35, 1.0))


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
    marks: tuple[Mark, ...] = ()


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
    group, own = task_slice(env, task)
    batch, row = group.batch, own.worlds.start + world
    marks = tuple(group.marks(row))
    qpos, mocap_pos, mocap_quat = (
        tensor[row].cpu().numpy() for tensor in (batch.qpos, batch.mocap_pos, batch.mocap_quat)
    )
    return Pose(qpos.copy(), mocap_pos[own.mocaps], mocap_quat[own.mocaps], marks)


def task_slice(env: Worlds, task: str) -> tuple[WorldGroup, TaskSlice]:
    """Return the group of a task and its part of it."""
    return next((group, own) for group in env.groups for own in group.tasks if own.task.name == task)


class Renderer:
    """Draws the worlds of one task of an environment."""

    def __init__(self, env: Worlds, task: str, width: int = 480, height: int = 360, *, is_simple: bool = False) -> None:
        """Open an off-screen OpenGL context.

        Args:
            env: The worlds.
            task: The task whose worlds are drawn.
            width: Of a picture, in pixels.
            height: Of a picture, in pixels.
            is_simple: Whether to leave out shadows and smooth edges (multisampling). In software, both together take
                more than four fifths of the time of a picture.
        """
        self._env, self._task = env, task
        self._model = copy.copy(task_slice(env, task)[1].model)  # a copy, because it is written to
        self._data = mujoco.MjData(self._model)
        if is_simple:
            self._model.vis.quality.offsamples = 0
        self._renderer = make_renderer(self._model, width, height)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = not is_simple

    def frame(self, world: int = 0) -> NDArray[np.uint8]:
        """Draw the current state of the task's `world`-th world. (H, W, 3)"""
        self.follow_layout(world)
        return self.draw(pose_of(self._env, self._task, world))

    def follow_layout(self, world: int = 0) -> None:
        """Give the geoms that do not move the places and sizes that they now have in a world."""
        group, own = task_slice(self._env, self._task)
        group.batch.copy_layout(world=own.worlds.start + world, model=self._model)

    def layout(self, world: int = 0) -> Layout:
        """Copy the places and sizes that the geoms now have in a world, to draw it later."""
        self.follow_layout(world)
        return {name: getattr(self._model, name).copy() for name in _LAYOUT}

    def use_layout(self, layout: Layout) -> None:
        """Give the geoms the places and sizes that `layout` has returned."""
        for name, values in layout.items():
            getattr(self._model, name)[:] = values

    def check_camera(self, name: str) -> None:
        """Check that the task has a camera.

        Raises:
            UserError: If it has not.
        """
        sites = {self._model.site(index).name for index in range(self._model.nsite)}
        if name != SCENE and not sites.issuperset(_FINGERTIPS):
            raise UserError(f"camera '{name}' looks at an arm, and the robot of '{self._task}' has none; use {SCENE}")

    def draw(self, pose: Pose) -> NDArray[np.uint8]:
        """Draw a world in a given pose. (H, W, 3)"""
        return self.draw_views(pose, (SCENE,))[0]

    def draw_views(self, pose: Pose, cameras: Sequence[str]) -> list[NDArray[np.uint8]]:
        """Draw a world in a given pose from each of the named cameras. (H, W, 3) each"""
        self._data.qpos[:] = pose.qpos
        self._data.mocap_pos[:] = pose.mocap_pos
        self._data.mocap_quat[:] = pose.mocap_quat
        mujoco.mj_forward(self._model, self._data)
        images = []
        for name in cameras:
            self._renderer.update_scene(self._data, camera=SCENE if name == SCENE else self._camera(VIEWS[name]))
            for mark in pose.marks:
                _add_ball(self._renderer.scene, mark)
            images.append(self._renderer.render().copy())  # the renderer reuses its buffer
        return images

    def _camera(self, view: View) -> mujoco.MjvCamera:
        """Return a camera at its present place."""
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.lookat[:] = view.point or np.mean([self._data.site(name).xpos for name in _FINGERTIPS], 0)
        camera.distance, camera.azimuth, camera.elevation = view.distance, view.azimuth, view.elevation
        return camera

    def close(self) -> None:
        """Free the context."""
        self._renderer.close()


def _add_ball(scene: mujoco.MjvScene, mark: Mark) -> None:
    """Add the ball of a mark to what the next picture shows."""
    radius, color = _NEXT_BALL if mark.is_next else _BALL
    size, place, turn = np.full(3, radius), np.asarray(mark.position, float), np.eye(3).ravel()
    ball = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(ball, mujoco.mjtGeom.mjGEOM_SPHERE, size, place, turn, np.asarray(color, np.float32))
    scene.ngeom += 1
