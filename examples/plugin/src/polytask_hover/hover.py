"""The task `hover`: hold the hand above the puck."""

from torch import Tensor

import polytask
from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.expert import act
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.sim.geometry import distance


def place(vector: Tensor) -> Placement:
    """Put the puck down where the random vector (N, 3) says; the goal is above it."""
    return Placement(target=offset(vector, z=0.2), obj_init=vector, joints={"obj": vector})


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Return reward (N,) and success (N,)."""
    gap = distance(s.hand, s.target)
    return 10 * tolerance(gap, 0.0, 0.03, margin=0.3), gap < 0.03


def expert(look: Look) -> Tensor:
    """Move towards the goal: actions (N, 4) from what an observation shows."""
    return act(look.hand, look.goal, gain=10.0, effort=0.0)


TASK = polytask.register_task(
    Task(
        name="hover",
        summary="Hold the hand above the puck.",
        success_rule="hand within 3 cm of the goal",
        start=Start(low=(-0.1, 0.6, 0.02), high=(0.1, 0.7, 0.02), place=place),
        scene="puck",  # a scene of polytask, or the path of your own MJCF file without .xml
        slots=free_object_slots_xyzw,
        reward=reward,
        expert=expert,
    )
)
polytask.register_suite("hover-reach", ["hover", "reach"])
