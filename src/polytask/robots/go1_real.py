"""The Unitree Go1 with the limits of its motors; `scenes/mjcf/go1_real.xml` has what else differs from the benchmark's.

The torque is that of the data sheet at rest and falls linearly to zero at the speed of the data sheet. A real motor
keeps its torque up to some speed first, which the data sheet does not give. So this one is too weak, if anything.
"""

from __future__ import annotations

from polytask.robots.robot import LeggedRobot, MotorLimits

ROBOT = LeggedRobot(
    name="go1_real",
    about="Unitree Go1 for parkour with the limits, delays and errors of a real one.",
    file="go1_real.xml",
    motors=MotorLimits(torque=(23.7, 23.7, 35.55), speed=(30.1, 30.1, 20.06)),
)
