"""All tasks of both domains, by name."""

from __future__ import annotations

from polytask.envs.manipulation import tasks as manipulation
from polytask.envs.manipulation.task import Task
from polytask.envs.parkour import tasks as parkour
from polytask.envs.parkour.terrain import Terrain

TASKS: dict[str, Task | Terrain] = {**manipulation.TASKS, **parkour.TASKS}
OURS = frozenset(TASKS)  # those of the package; plug-ins add others
