"""The manipulation tasks: one module each, listed here."""

from __future__ import annotations

from polytask.tasks.manipulation import reach
from polytask.tasks.task import Task

TASKS: dict[str, Task] = {module.TASK.name: module.TASK for module in (reach,)}
