"""Robots: how an action moves a robot, and how its state is read."""

from __future__ import annotations

from polytask.robots import go1, go1_real, panda, sawyer
from polytask.robots.robot import Home, LeggedRobot, Robot, RobotState

ROBOTS: dict[str, Robot | LeggedRobot] = {
    robot.name: robot for robot in (sawyer.ROBOT, panda.ROBOT, go1.ROBOT, go1_real.ROBOT)
}

__all__ = ["ROBOTS", "Home", "LeggedRobot", "Robot", "RobotState"]
