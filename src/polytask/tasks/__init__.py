"""Tasks and suites."""

from __future__ import annotations

from polytask.suites import SUITES
from polytask.tasks import manipulation, parkour
from polytask.tasks.parkour import Terrain
from polytask.tasks.task import Task

TASKS: dict[str, Task | Terrain] = {**manipulation.TASKS, **parkour.TASKS}

__all__ = ["SUITES", "TASKS"]
