"""Tasks and suites."""

from __future__ import annotations

from polytask.tasks.manipulation import TASKS
from polytask.suites import SUITES

__all__ = ["SUITES", "TASKS"]
