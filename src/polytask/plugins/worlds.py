"""Add tasks, terrains, robots and worlds of MT-Opt from outside the package."""

from __future__ import annotations

from typing import TypeVar

from polytask.envs.manipulation.task import Task
from polytask.envs.options import ROBOT_NAMES
from polytask.envs.parkour.terrain import Terrain
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.mtopt.config.world_specs import WORLDS, WorldSpec
from polytask.plugins.table import add_entry
from polytask.robots import ROBOTS, LeggedRobot, Robot

AnyTask = TypeVar("AnyTask", Task, Terrain)
AnyRobot = TypeVar("AnyRobot", Robot, LeggedRobot)


def register_task(task: AnyTask) -> AnyTask:
    """Add a task, a `Task` or a `Terrain`, and return it.

    Its `scene` is the name of a scene of the package, or the path of an MJCF file without `.xml`.
    """
    if not isinstance(task, Task | Terrain):
        raise UserError(f"register_task takes a Task or a Terrain, not {type(task).__name__}")
    add_entry("task", task.name, task, TASKS)
    return task


def register_terrain(terrain: Terrain) -> Terrain:
    """Add a terrain of parkour, and return it."""
    if not isinstance(terrain, Terrain):
        raise UserError(f"register_terrain takes a Terrain, not {type(terrain).__name__}")
    return register_task(terrain)


def register_robot(robot: AnyRobot) -> AnyRobot:
    """Add a robot, and return it. Its `file` is the path of its MJCF file."""
    if not isinstance(robot, Robot | LeggedRobot):
        raise UserError(f"register_robot takes a Robot or a LeggedRobot, not {type(robot).__name__}")
    add_entry("robot", robot.name, robot, ROBOTS)
    if robot.name not in ROBOT_NAMES:
        ROBOT_NAMES.append(robot.name)
    return robot


def register_world(spec: WorldSpec) -> WorldSpec:
    """Add a world of MT-Opt, and return what it declares. Runs choose it by `world.kind`.

    Its `build` makes a `polytask.mtopt.world.World` from the settings of the run's worlds.
    """
    if not isinstance(spec, WorldSpec):
        raise UserError(f"register_world takes a WorldSpec, not {type(spec).__name__}")
    spec.check()
    add_entry("world", spec.name, spec, WORLDS)
    return spec
