"""Robots: how an action moves one and how a task sees it."""

from __future__ import annotations

from polytask.robots import panda, sawyer
from polytask.robots.robot import Home, Robot, RobotState

ROBOTS: dict[str, Robot] = {"sawyer": sawyer.ROBOT, "panda": panda.ROBOT}

__all__ = ["ROBOTS", "Home", "Robot", "RobotState"]
