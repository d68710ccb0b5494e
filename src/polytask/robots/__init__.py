"""Robots: how an action moves a robot, and how its state is read."""

from __future__ import annotations

from polytask.robots import go1, panda, sawyer
from polytask.robots.robot import Home, LeggedRobot, Robot, RobotState

ROBOTS: dict[str, Robot | LeggedRobot] = {"sawyer": sawyer.ROBOT, "panda": panda.ROBOT, "go1": go1.ROBOT}

__all__ = ["ROBOTS", "Home", "LeggedRobot", "Robot", "RobotState"]
