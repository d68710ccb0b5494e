"""Tasks and suites."""

from __future__ import annotations

from polytask.envs.manipulation import tasks as manipulation
from polytask.envs.manipulation.task import Task
from polytask.envs.parkour import tasks as parkour
from polytask.envs.parkour.tasks import Terrain
from polytask.envs.suites import SUITES

TASKS: dict[str, Task | Terrain] = {**manipulation.TASKS, **parkour.TASKS}

__all__ = ["SUITES", "TASKS"]
